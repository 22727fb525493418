// The first topics: Bregman k-means++ over documents, and the topic under which each of them is most likely, whole.
//
// Divergences are sums in double precision of products in single precision, which are exact in any order where counts are
// whole; draws are by sums in an order that the number of documents alone decides. The numbers that are drawn come from the
// host: both choose the same documents, but where the last bit of a sum decides.
#include <stdint.h>

// Documents of a block, a warp each, whose chances are summed together.
constexpr int TILE = 8;
constexpr int WARPS = TILE;

struct Sample {
    // Documents: entry i of document d at first[d] + i.
    const unsigned *first, *word;
    const float *count;
    // Tokens of each, and what each scores under its own frequencies.
    const double *length, *own;
    // Divergence of each document from the nearest seed so far, and which one that is.
    double *nearest;
    unsigned *owner;
    // Sums of `nearest` over the documents of each tile.
    double *sums;
    // log((c + lambda) / lambda) of the words of the last seed, zero of all others.
    float *gain;
    // Seeds so far; the number of the first that could not be drawn is `failed`.
    unsigned *seeds, *failed;
    // Of the last seed: log(lambda / total), and what it has in all divergences.
    double *constants;
    double lambda, ln_lambda;
    unsigned num_documents, vocab_size;
};

// Sum over a block of threads in a fixed order; all threads have it.
template <int THREADS> __device__ double sum_of_block(double value, double *part) {
    for (int o = 16; o; o >>= 1) value += __shfl_xor_sync(~0u, value, o);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < THREADS / 32; w++) sum += part[w];
    return sum;
}

constexpr int DRAWERS = 1024;

// Take the seed with this number: `given`, or where that is none the document that `share` of all chances falls on. One block.
extern "C" __global__ void __launch_bounds__(DRAWERS) draw_seed(
    const __grid_constant__ Sample sample, unsigned number, unsigned given, double share
) {
    __shared__ double part[DRAWERS / 32], chance[TILE];
    __shared__ unsigned chosen;
    __shared__ double left;
    const int thread = threadIdx.x;
    if (*sample.failed != ~0u) return;
    // The words of the seed before are nothing special any more.
    if (number > 0) {
        const unsigned before = sample.seeds[number - 1], end = sample.first[before + 1];
        for (unsigned i = sample.first[before] + thread; i < end; i += DRAWERS) sample.gain[sample.word[i]] = 0.f;
    }
    unsigned seed = given;
    if (given == ~0u) {
        const unsigned tiles = (sample.num_documents + TILE - 1) / TILE;
        // Each thread has a stretch of tiles.
        const unsigned each = (tiles + DRAWERS - 1) / DRAWERS;
        const unsigned from = min(tiles, thread * each), to = min(tiles, from + each);
        double mine = 0;
        for (unsigned t = from; t < to; t++) mine += sample.sums[t];
        // What threads before have: within the warp, then warps before.
        double upto = mine;
        for (int o = 1; o < 32; o <<= 1) {
            const double other = __shfl_up_sync(~0u, upto, o);
            if ((thread & 31) >= o) upto += other;
        }
        if ((thread & 31) == 31) part[thread / 32] = upto;
        if (thread == 0) chosen = ~0u;
        __syncthreads();
        double before = 0, all = 0;
        for (int w = 0; w < DRAWERS / 32; w++) {
            if (w < thread / 32) before += part[w];
            all += part[w];
        }
        const double aim = share * all;
        const double begins = before + (upto - mine);
        // The first thread whose stretch reaches the aim, or the last that has anything.
        __shared__ unsigned first_thread, last_thread;
        if (thread == 0) first_thread = DRAWERS, last_thread = DRAWERS;
        __syncthreads();
        if (mine > 0 && begins + mine >= aim) atomicMin(&first_thread, (unsigned)thread);
        __syncthreads();
        if (first_thread == DRAWERS) {
            // Rounding has left the aim beyond all: the last that has anything.
            if (thread == 0) last_thread = 0;
            __syncthreads();
            if (mine > 0) atomicMax(&last_thread, (unsigned)thread + 1);
        }
        __syncthreads();
        const unsigned who = first_thread < DRAWERS ? first_thread : last_thread - 1;
        if (all > 0 && thread == who) {
            double rest = aim - begins;
            unsigned tile = ~0u;
            for (unsigned t = from; t < to; t++) {
                if (!(sample.sums[t] > 0)) continue;
                tile = t;
                if (rest <= sample.sums[t]) break;
                if (t + 1 < to) rest -= sample.sums[t];
            }
            chosen = tile;
            left = rest;
        }
        __syncthreads();
        if (chosen == ~0u) {
            if (thread == 0) *sample.failed = number;
            return;
        }
        const unsigned begin = chosen * TILE;
        const int documents = min(TILE, (int)(sample.num_documents - begin));
        if (thread < TILE) chance[thread] = thread < documents ? sample.nearest[begin + thread] : 0;
        __syncthreads();
        if (thread == 0) {
            double rest = left;
            unsigned last = ~0u;
            for (int i = 0; i < documents; i++) {
                if (!(chance[i] > 0)) continue;
                last = begin + i;
                rest -= chance[i];
                if (rest <= 0) break;
            }
            chosen = last;
        }
        __syncthreads();
        seed = chosen;
        if (seed == ~0u) {
            if (thread == 0) *sample.failed = number;
            return;
        }
    }
    __syncthreads();
    double gains = 0;
    const unsigned end = sample.first[seed + 1];
    for (unsigned i = sample.first[seed] + thread; i < end; i += DRAWERS) {
        const double gain = log((double)sample.count[i] + sample.lambda) - sample.ln_lambda;
        sample.gain[sample.word[i]] = (float)gain;
        gains += gain;
    }
    gains = sum_of_block<DRAWERS>(gains, part);
    if (thread == 0) {
        const double vocab = sample.vocab_size;
        const double unseen = sample.ln_lambda - log(sample.length[seed] + sample.lambda * vocab);
        sample.seeds[number] = seed;
        sample.constants[0] = unseen;
        sample.constants[1] = sample.lambda * (gains + vocab * unseen);
    }
}

// Documents that the last seed is nearer to than all before belong to it. A block a tile.
extern "C" __global__ void __launch_bounds__(32 * WARPS) near_seed(const __grid_constant__ Sample sample, unsigned number) {
    __shared__ double part[WARPS];
    if (*sample.failed != ~0u) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const unsigned begin = blockIdx.x * TILE, end = min(sample.num_documents, begin + TILE);
    const unsigned seed = sample.seeds[number];
    const double unseen = sample.constants[0], constant = sample.constants[1];
    double nearest = 0;
    const unsigned d = begin + warp;
    if (d < end) {
        const unsigned from = sample.first[d], to = sample.first[d + 1];
        nearest = sample.nearest[d];
        const double apart = sample.own[d] - constant - __dmul_rn(sample.length[d], unseen);
        double cross = 0;
#pragma unroll 8
        for (unsigned i = from + lane; i < to; i += 32) {
            cross += (double)__fmul_rn(sample.count[i], __ldg(sample.gain + sample.word[i]));
        }
        for (int o = 16; o; o >>= 1) cross += __shfl_xor_sync(~0u, cross, o);
        const double divergence = apart - cross;
        if (divergence < nearest || d == seed) {
            nearest = d == seed ? 0.0 : fmax(divergence, 0.0);
            if (lane == 0) {
                sample.nearest[d] = nearest;
                sample.owner[d] = number;
            }
        }
    }
    if (lane == 0) part[warp] = nearest;
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0;
        for (int w = 0; w < WARPS; w++) all += part[w];
        sample.sums[blockIdx.x] = all;
    }
}

// log((S + lambda) scale_k) of every word and topic.
extern "C" __global__ void write_logs(
    const double *total, const double *ln_scale, double lambda, unsigned num_topics, unsigned long long number, float *logs
) {
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < number;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        logs[i] = (float)(log(total[i] + lambda) + ln_scale[i % num_topics]);
    }
}

// Topics of a thread at a time.
constexpr int TOPICS = 4;
constexpr int NEAR = 256;

// The topic under which each document is most likely, of equal ones the first. A block a document.
extern "C" __global__ void __launch_bounds__(NEAR) near_topic(
    const unsigned *first, const unsigned *word, const float *count, const float *logs, unsigned num_topics, unsigned *owner
) {
    __shared__ float most[NEAR / 32];
    __shared__ unsigned which[NEAR / 32];
    const unsigned d = blockIdx.x, begin = first[d], end = first[d + 1];
    float best = -INFINITY;
    unsigned at = ~0u;
    for (unsigned k = threadIdx.x; k < num_topics; k += TOPICS * NEAR) {
        float sum[TOPICS] = {};
#pragma unroll 4
        for (unsigned i = begin; i < end; i++) {
            const float *row = logs + (size_t)word[i] * num_topics;
            const float c = count[i];
#pragma unroll
            for (int j = 0; j < TOPICS; j++) {
                sum[j] = fmaf(c, __ldg(row + min(k + j * NEAR, num_topics - 1)), sum[j]);
            }
        }
#pragma unroll
        for (int j = 0; j < TOPICS; j++) {
            if (k + j * NEAR < num_topics && sum[j] > best) best = sum[j], at = k + j * NEAR;
        }
    }
    for (int o = 16; o; o >>= 1) {
        const float other = __shfl_xor_sync(~0u, best, o);
        const unsigned there = __shfl_xor_sync(~0u, at, o);
        if (other > best || (other == best && there < at)) best = other, at = there;
    }
    if ((threadIdx.x & 31) == 0) most[threadIdx.x / 32] = best, which[threadIdx.x / 32] = at;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < NEAR / 32; w++) {
            if (most[w] > best || (most[w] == best && which[w] < at)) best = most[w], at = which[w];
        }
        owner[d] = at == ~0u ? 0 : at;
    }
}

// Whole counts of documents, each in the topic that owns it: any order of them gives the same sums. A warp a document.
extern "C" __global__ void gather_documents(
    const unsigned *first, const unsigned *word, const float *count, const unsigned *owner, unsigned num_documents,
    unsigned num_topics, unsigned long long *total
) {
    const unsigned d = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (d >= num_documents) return;
    const unsigned k = owner[d], end = first[d + 1];
    for (unsigned i = first[d] + lane; i < end; i += 32) {
        atomicAdd(total + (size_t)word[i] * num_topics + k, (unsigned long long)count[i]);
    }
}

// Whole numbers become those of double precision in their places.
extern "C" __global__ void make_doubles(unsigned long long number, unsigned long long *total) {
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < number;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        total[i] = (unsigned long long)__double_as_longlong((double)total[i]);
    }
}

// Topic k of a total becomes topic places[k] of another, which has more of them and nothing yet. A block a word.
extern "C" __global__ void spread_topics(
    const double *from, const unsigned *places, unsigned num_from, unsigned num_to, double *to
) {
    const size_t v = blockIdx.x;
    for (unsigned k = threadIdx.x; k < num_from; k += blockDim.x) to[v * num_to + places[k]] = from[v * num_from + k];
}
