// Document completion under fixed topics: the topics of a document from the words that are seen, all topics at first, then
// the log probability of the words that are held out.
//
// A block works a document out. Numbers are in single precision and sums of probabilities in double precision, as on the CPU;
// nothing is added in an order that depends on time, so that the same documents give the same bits.
#include <stdint.h>

#include "numbers.cuh"

#define FULL 0xffffffffu
constexpr int THREADS = 128, WARPS = THREADS / 32;

struct Arguments {
    // V x width numbers exp(C_vk) / scale_k, and K scales and alphas.
    const float *values, *scale, *alpha;
    // Documents, the longest first; where the seen and the held-out words of each begin.
    const uint32_t *order, *seen_start, *seen_word, *held_start, *held_word;
    const float *seen_count, *held_count;
    // Numbers of a document's seen words: `longest` a block.
    float *work;
    // sum c log p of the held-out words of each document.
    double *log_probability;
    uint32_t num_documents, num_topics, width, longest, iterations, check_every;
    float tolerance, floor;
};

__device__ float sum_of_warp(float value) {
    for (int o = 16; o; o >>= 1) value += __shfl_xor_sync(FULL, value, o);
    return value;
}

// The document that a block is at, and its active topics: which they are, their counts, and what a word's weights are
// multiplied by.
struct Document {
    const Arguments &a;
    uint32_t *topic;
    float *count, *prior, *next, *work;
    const uint32_t *word;
    const float *of_word;
    int words, active;

    // work_u = c_u / sum_k prior_k values_uk. A warp a word.
    __device__ void share_words() {
        const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        for (int u = warp; u < words; u += WARPS) {
            const float *row = a.values + (size_t)word[u] * a.width;
            float norm = 0.f;
            for (int i = lane; i < active; i += 32) norm = fmaf(prior[i], __ldg(row + topic[i]), norm);
            norm = sum_of_warp(norm);
            if (lane == 0) work[u] = norm > 0.f ? of_word[u] / norm : 0.f;
        }
        __syncthreads();
    }

    // next_k = prior_k sum_u work_u values_uk. Where topics are few, several threads have one and share the words.
    __device__ void add_words() {
        int each = 1;
        while (each < 32 && 2 * each * active <= THREADS) each *= 2;
        const int part = threadIdx.x % each;
        // Threads of a warp stay together, those without a topic too.
        for (int from = 0; from < active; from += THREADS / each) {
            const int i = from + threadIdx.x / each;
            float sum = 0.f;
            if (i < active)
                for (int u = part; u < words; u += each)
                    sum = fmaf(work[u], __ldg(a.values + (size_t)word[u] * a.width + topic[i]), sum);
            for (int o = each / 2; o; o >>= 1) sum += __shfl_xor_sync(FULL, sum, o);
            if (i < active && part == 0) next[i] = prior[i] * sum;
        }
        __syncthreads();
    }

    // Each word is shared by the topics alone.
    __device__ void begin() {
        active = a.num_topics;
        for (int i = threadIdx.x; i < active; i += THREADS) topic[i] = i, prior[i] = a.scale[i];
        __syncthreads();
        share_words();
        add_words();
        for (int i = threadIdx.x; i < active; i += THREADS) count[i] = next[i];
        __syncthreads();
    }

    // Topics that have next to nothing leave; those that stay keep their order. One warp moves them.
    __device__ void shrink() {
        bool leaves = false;
        float most = 0.f;
        for (int i = threadIdx.x; i < active; i += THREADS) leaves |= !(count[i] > a.floor), most = fmaxf(most, count[i]);
        if (!__syncthreads_or(leaves)) return;
        __shared__ float of_warps[WARPS];
        __shared__ int kept;
        for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(FULL, most, o));
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
        __syncthreads();
        for (int w = 0; w < WARPS; w++) most = fmaxf(most, of_warps[w]);
        const float least = fminf(a.floor, 0.5f * most);
        if (threadIdx.x < 32) {
            int many = 0;
            for (int from = 0; from < active; from += 32) {
                const int i = from + threadIdx.x;
                const float number = i < active ? count[i] : 0.f;
                const uint32_t which = i < active ? topic[i] : 0;
                const bool stays = i < active && number > least;
                const unsigned all = __ballot_sync(FULL, stays);
                const int to = many + __popc(all & ((1u << threadIdx.x) - 1));
                if (stays) count[to] = number, topic[to] = which;
                many += __popc(all);
                __syncwarp();
            }
            if (threadIdx.x == 0) kept = many;
        }
        __syncthreads();
        active = kept;
        __syncthreads();
    }

    __device__ void iterate() {
        for (uint32_t iteration = 1; iteration <= max(a.iterations, 1u); iteration++) {
            for (int i = threadIdx.x; i < active; i += THREADS)
                prior[i] = exp_digamma(count[i] + a.alpha[topic[i]]) * a.scale[topic[i]];
            __syncthreads();
            share_words();
            add_words();
            const bool last = iteration >= a.iterations;
            bool moves = false;
            for (int i = threadIdx.x; i < active; i += THREADS) {
                moves |= !(fabsf(next[i] - count[i]) < a.tolerance);
                count[i] = next[i];
            }
            const bool at_rest = !__syncthreads_or(moves);
            if (last || (iteration % a.check_every == 0 && at_rest)) return;
            if (a.floor > 0.f) shrink();
        }
    }

    // sum c log(sum_k (alpha_k + N_k) values_vk / sum_k (alpha_k + N_k)). A warp a word.
    __device__ double of_held_out(const uint32_t *held_word, const float *held_count, int held) {
        __shared__ double of_warps[WARPS];
        const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        double all = 0.0, logs = 0.0;
        for (int k = lane; k < a.num_topics; k += 32) all += (double)a.alpha[k];
        for (int i = lane; i < active; i += 32) all += (double)count[i];
        all = sum_of_warp(all);
        for (int u = warp; u < held; u += WARPS) {
            const float *row = a.values + (size_t)held_word[u] * a.width;
            double sum = 0.0;
            for (int k = lane; k < a.num_topics; k += 32) sum = fma((double)a.alpha[k], (double)__ldg(row + k), sum);
            for (int i = lane; i < active; i += 32) sum = fma((double)count[i], (double)__ldg(row + topic[i]), sum);
            sum = sum_of_warp(sum);
            logs += (double)held_count[u] * log(sum / all);
        }
        if (lane == 0) of_warps[warp] = logs;
        __syncthreads();
        double total = 0.0;
        for (int w = 0; w < WARPS; w++) total += of_warps[w];
        __syncthreads();
        return total;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) complete(Arguments a) {
    extern __shared__ float room[];
    Document document{a,
                      (uint32_t *)room,
                      room + a.num_topics,
                      room + 2 * a.num_topics,
                      room + 3 * a.num_topics,
                      a.work + (size_t)blockIdx.x * a.longest};
    for (uint32_t at = blockIdx.x; at < a.num_documents; at += gridDim.x) {
        const uint32_t d = a.order[at], seen = a.seen_start[d], held = a.held_start[d];
        document.word = a.seen_word + seen;
        document.of_word = a.seen_count + seen;
        document.words = a.seen_start[d + 1] - seen;
        document.begin();
        document.iterate();
        const double found = document.of_held_out(a.held_word + held, a.held_count + held, a.held_start[d + 1] - held);
        if (threadIdx.x == 0) a.log_probability[d] = found;
        __syncthreads();
    }
}
