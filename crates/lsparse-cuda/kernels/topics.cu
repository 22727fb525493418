// The document step of topics: a block of threads works one document out, and its statistics are added in fixed point.
//
// It is two kernels: `first` iterates until a document's counts rest, with up to 64 topics; `rest` goes on with the few that
// are left, tries to empty some of them, and chooses the L topics of each token. The weights of few topics take little
// shared memory, so that a multiprocessor has many documents in hand: `rest` is launched for many topics first, and leaves
// a document that has come down to fewer to the launch for those.
//
// The rules are those of the document step on a processor (crates/lsparse/src/topics/local): the same first topics, the
// same iterations, restart proposals in the same order, the same choice of L topics a token. Sums across documents are of
// whole numbers, so that no order of them changes a bit; sums within a document are in an order that its number of words
// alone decides, by the number of threads that work on it.
#ifndef EMULATED
#include <stdint.h>
#define DYNAMIC_SHARED(name) extern __shared__ float name[]
#endif
#include "numbers.cuh"

typedef unsigned long long u64;

// Topics that a document may have at one time: two a lane of a warp.
constexpr int MOST_TOPICS = 64;
// L up to which a token's topics are found in registers.
constexpr int MOST_KEPT = 8;
// Topics up to which a pass keeps a token's weights in registers.
constexpr int MOST_FUSED = 16;
// Iterations between two looks at convergence.
constexpr int CHECK_EVERY = 5;

constexpr unsigned SOLVED = 1, WAITS = 2, GOES_ON = 3;

// Of a topic that is left between two launches of `rest`: it was tried to be emptied.
constexpr unsigned TRIED = 1u << 31;

// What a document leaves behind besides statistics; all zero for one without tokens.
struct Found {
    double entropy, alloc, evidence;
    unsigned active, iterations, proposed, accepted;
    // WAITS between the two kernels, GOES_ON between two launches of the second (`evidence` is the bound then), 1 if it was
    // worked out; 0 if somebody else has to, and then nothing was added anywhere.
    unsigned solved, unused;
};

struct Step {
    // Documents: entry i of document d at first[d] + i, and its tokens.
    const unsigned *first, *word;
    const float *count, *tokens;
    // The documents of this launch, which have at most `most_words` words.
    const unsigned *order;
    // Topics: weights word by word, each topic's scale, alpha_k and its ln gamma, first topics of each word.
    const float *table, *scale, *alpha;
    const double *alpha_ln_gamma;
    const unsigned *start_topic;
    const float *start_value;
    // Counts of an earlier visit, document d's from warm_first[d] to warm_first[d + 1]; may be null.
    const unsigned *warm_first, *warm_topic;
    const float *warm_count;
    // Results: V x K statistics, what documents leave, and MOST_TOPICS places a document for its topics, their counts, and
    // between the kernels exp(psi(count + alpha)) of the prior that made them.
    u64 *stats;
    Found *found;
    unsigned *left_topic;
    float *left_count, *left_spread;
    // Room of each block for weights that do not fit into shared memory.
    float *far;
    u64 far_stride;
    // ln gamma of the sum of alphas, and the sum; the weight of a token's unit in the statistics.
    double alpha_sum_ln_gamma, alpha_sum;
    float unit;
    float tolerance, active_floor, restart_floor;
    unsigned num_documents, most_words, num_topics, width, start_width;
    unsigned sparsity, iterations, max_active, restarts;
    // Documents of `rest` have more topics than the one and at most the other.
    unsigned above, most_active;
    unsigned unused;
};

template <int THREADS> __device__ __forceinline__ void wait_for_all() {
    if (THREADS == 32) __syncwarp();
    else __syncthreads();
}

// Of two numbers at one time: neither waits for the other.
__device__ __noinline__ float2 exp_digammas(float one, float two) {
    return make_float2(exp_digamma(one), exp_digamma(two));
}

// ln gamma is the first less the second: the series at x + 6, and what leads there.
__device__ __noinline__ double ln_gamma_beyond(double x) {
    const double y = x + 6, r = 1 / y, z = r * r;
    const double series = r * (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680))));
    return (y - 0.5) * log(y) - y + 0.91893853320467274 + series;
}

__device__ __noinline__ double ln_gamma_steps(double x) {
    return log(x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5));
}

__device__ double ln_gamma(double x) { return ln_gamma_beyond(x) - ln_gamma_steps(x); }

// Sums over a warp of N values a lane: lane l ends with the sum of value l mod N.
template <int N> __device__ __forceinline__ float sums_of_warp(float (&value)[N], int lane) {
#pragma unroll
    for (int half = N / 2; half; half /= 2) {
        const bool upper = lane & half;
#pragma unroll
        for (int i = 0; i < half; i++) {
            const float give = upper ? value[i] : value[i + half], keep = upper ? value[i + half] : value[i];
            value[i] = keep + __shfl_xor_sync(~0u, give, half);
        }
    }
    float sum = value[0];
#pragma unroll
    for (int o = N; o < 32; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
    return sum;
}

// How many topics documents have in a kernel: no more than a pass keeps in registers, more at first, or either. Who needs
// no such registers leaves them to other documents.
enum Topics { FEW, MANY, ANY };

// A document in the hands of its block.
template <int THREADS, bool FAR, Topics TOPICS> struct Document {
    static constexpr int WARPS = THREADS / 32;
    // Threads that have a topic's part in the bound, or half of it, each: the last ones, which have the fewest words.
    static constexpr int JUDGES = THREADS < 2 * MOST_TOPICS ? THREADS : 2 * MOST_TOPICS;

    // What a pass of `rest` is made for.
    enum Phase {
        // To know the bound before the first proposal.
        BEGIN,
        // To go on from where a topic was emptied, twice and
        FIRST, SECOND,
        // for the bound that comes of it.
        JUDGE,
        // To leave a prior that belongs to the counts.
        END,
        DONE,
        // The next launch goes on.
        PAUSE
    };

    // Shared by the block. Rows of the weights are numbered once; positions count those that are active.
    struct Shared {
        // Of each position: its prior times scale, and where its row of weights begins.
        float2 prior[MOST_TOPICS];
        // exp(psi(count + alpha)) of each position.
        float spread[MOST_TOPICS];
        float count[MOST_TOPICS];
        int row[MOST_TOPICS];
        // Of each row: its topic, alpha_k, scale and ln gamma of alpha_k.
        unsigned topic[MOST_TOPICS];
        float alpha[MOST_TOPICS], scale[MOST_TOPICS];
        double ln_gamma[MOST_TOPICS];
        float part[WARPS][MOST_TOPICS];
        double part_log[WARPS], part_entropy[WARPS], part_judge[WARPS];
        unsigned fixed[MOST_TOPICS];
        unsigned part_count[WARPS], part_most[WARPS];
        int active, phase;
    };

    const Step &step;
    Shared &own;
    int thread, lane, warp;
    int words, stride, active;
    // Of each word: count over norm, its number, its count.
    float *ratio;
    unsigned *word;
    float *count;
    // Weights of row a and word u at a * stride + u.
    float *block;
    double logs;
    // Of the first warp: how far it has come, and the state before a proposal, two positions a lane.
    unsigned iterations, proposed, accepted;
    double best;
    u64 tried;
    int before;
    float count_one, count_two;
    int row_one, row_two;

    __device__ Document(const Step &step, Shared &own, float *room)
        : step(step), own(own), thread(threadIdx.x), lane(threadIdx.x & 31), warp(threadIdx.x >> 5) {
        ratio = room;
        word = (unsigned *)(room + step.most_words);
        count = room + 2 * step.most_words;
        block = FAR ? step.far + (size_t)blockIdx.x * step.far_stride : room + 3 * step.most_words;
    }

    __device__ void wait() { wait_for_all<THREADS>(); }

    // Take up the words of document d.
    __device__ void open(unsigned d) {
        const unsigned from = step.first[d];
        words = step.first[d + 1] - from;
        stride = words | 1;
        for (int u = thread; u < words; u += THREADS) {
            word[u] = step.word[from + u];
            count[u] = step.count[from + u];
        }
    }

    // The topics that the words' first responsibilities give more than the floor, at most `max_active` of them. Masses are
    // whole numbers of `1 / unit`: any order gives the same sum. False if there are none.
    __device__ bool begin_by_word(float unit) {
        unsigned *mass = (unsigned *)block;
        const int num_topics = step.num_topics, width = step.start_width;
        unsigned *found_mass = mass + num_topics, *found_topic = found_mass + min(num_topics, words * width);
        for (int k = thread; k < num_topics; k += THREADS) mass[k] = 0;
        wait();
        for (int i = thread; i < words * width; i += THREADS) {
            const int u = i / width;
            const size_t at = (size_t)word[u] * width + (i - u * width);
            const float share = __ldg(step.start_value + at);
            if (share > 0.f) atomicAdd(mass + __ldg(step.start_topic + at), __float2uint_rn(count[u] * share * unit));
        }
        wait();
        unsigned most = 0;
        for (int k = thread; k < num_topics; k += THREADS) most = max(most, mass[k]);
        most = __reduce_max_sync(~0u, most);
        if (lane == 0) own.part_most[warp] = most;
        wait();
#pragma unroll
        for (int w = 0; w < WARPS; w++) most = max(most, own.part_most[w]);
        // A document of few words may have nothing above the floor: then its largest topics are all it has.
        const unsigned floor = (unsigned)fminf(step.active_floor * unit, (float)(most / 2));
        // Topics above the floor in their order: each warp looks at a stretch of them.
        const int chunk = (num_topics + WARPS * 32 - 1) / (WARPS * 32) * 32;
        const int begin = warp * chunk, end = min(num_topics, begin + chunk);
        unsigned number = 0;
        for (int k = begin + lane; k < end; k += 32) number += mass[k] > floor;
        number = __reduce_add_sync(~0u, number);
        if (lane == 0) own.part_count[warp] = number;
        wait();
        int to = 0, all = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            to += w < warp ? own.part_count[w] : 0;
            all += own.part_count[w];
        }
#pragma unroll 1
        for (int k = begin; k < end; k += 32) {
            const unsigned m = k + lane < end ? mass[k + lane] : 0;
            const unsigned there = __ballot_sync(~0u, m > floor);
            if (m > floor) {
                const int at = to + __popc(there & ((1u << lane) - 1));
                found_mass[at] = m;
                found_topic[at] = k + lane;
            }
            to += __popc(there);
        }
        wait();
        if (warp == 0) {
            // The smallest floor that leaves no more than may start.
            unsigned low = floor, high = all > (int)step.max_active ? most : floor;
            while (high - low > 1) {
                const unsigned middle = low + (high - low) / 2;
                unsigned above = 0;
                for (int i = lane; i < all; i += 32) above += found_mass[i] > middle;
                above = __reduce_add_sync(~0u, above);
                if (above > step.max_active) low = middle;
                else high = middle;
                if (above == step.max_active) break;
            }
            int kept = 0;
#pragma unroll 1
            for (int i = 0; i < all; i += 32) {
                const unsigned m = i + lane < all ? found_mass[i + lane] : 0;
                const unsigned there = __ballot_sync(~0u, m > high);
                if (m > high) {
                    const int at = kept + __popc(there & ((1u << lane) - 1));
                    own.topic[at] = found_topic[i + lane];
                    own.count[at] = (float)m / unit;
                }
                kept += __popc(there);
            }
            if (lane == 0) own.active = kept;
        }
        wait();
        active = own.active;
        return active > 0;
    }

    // Counts of an earlier visit. False if there are too many.
    __device__ bool begin_with(unsigned from, unsigned to) {
        active = to - from;
        if (active > MOST_TOPICS) return false;
        for (int i = thread; i < active; i += THREADS) {
            own.topic[i] = step.warm_topic[from + i];
            own.count[i] = step.warm_count[from + i];
        }
        wait();
        return true;
    }

    // Gather the weights of the document's words and topics, lanes being topics, and what depends on topics alone.
    __device__ void gather() {
        const int last = active - 1;
        const int group = active <= 8 ? 8 : active <= 16 ? 16 : 32, groups = 32 / group;
        const int at = lane & (group - 1), of = lane / group;
        const unsigned topic = own.topic[min(at, last)], other = own.topic[min(at + 32, last)];
        if (active > 32) {
#pragma unroll 8
            for (int u = warp; u < words; u += WARPS) {
                const float *row = step.table + (size_t)word[u] * step.width;
                const float one = __ldg(row + topic), two = __ldg(row + other);
                block[at * stride + u] = one;
                if (at + 32 < active) block[(at + 32) * stride + u] = two;
            }
        } else {
#pragma unroll 8
            for (int u = warp * groups + of; u < words; u += WARPS * groups) {
                const float weight = __ldg(step.table + (size_t)word[u] * step.width + topic);
                if (at < active) block[at * stride + u] = weight;
            }
        }
        for (int i = thread; i < active; i += THREADS) {
            const unsigned k = own.topic[i];
            own.alpha[i] = step.alpha[k];
            own.scale[i] = step.scale[k];
            own.ln_gamma[i] = step.alpha_ln_gamma[k];
        }
        wait();
        if (warp == 0) {
            const bool has_one = lane < active, has_two = lane + 32 < active;
            const float one = has_one ? own.count[lane] : 0.f, two = has_two ? own.count[lane + 32] : 0.f;
            place(has_one, lane, one, lane, has_two, lane + 32, two, lane + 32);
            pad(active);
        }
        wait();
    }

    // The first warp: put a row, and another if there is one, at a position with a count, and the prior that comes of it:
    // exp(psi(count + alpha)) scale.
    __device__ __forceinline__ void place(
        bool has_one, int at_one, float one, int row_one, bool has_two, int at_two, float two, int row_two
    ) {
        const float alpha_one = has_one ? own.alpha[row_one] : 1.f, alpha_two = has_two ? own.alpha[row_two] : 1.f;
        const float2 spread = exp_digammas(one + alpha_one, two + alpha_two);
        if (has_one) put(at_one, one, row_one, spread.x);
        if (has_two) put(at_two, two, row_two, spread.y);
    }

    __device__ __forceinline__ void put(int at, float number, int row, float spread) {
        own.count[at] = number;
        own.row[at] = row;
        own.spread[at] = spread;
        own.prior[at] = make_float2(spread * own.scale[row], __int_as_float(row * stride));
    }

    // Positions behind the last that a pass in registers reads weigh nothing.
    __device__ __forceinline__ void pad(int from) {
        if (lane >= from && lane < MOST_FUSED) own.prior[lane] = make_float2(0.f, __int_as_float(0));
    }

    // One pass over the weights: norms of the words, then each warp's share of the counts; where the phase asks for it also
    // its share of sum_u c_u log norm_u. Nothing of it is to be read before the threads have waited for each other.
    __device__ __forceinline__ void pass(bool with_logs) {
        logs = 0;
        if (with_logs) judge();
        if (TOPICS != MANY && active <= 8) fused<8>(with_logs);
        else if (TOPICS == FEW || (TOPICS == ANY && active <= MOST_FUSED)) fused<MOST_FUSED>(with_logs);
        else wide(with_logs);
        if (with_logs) {
            logs = sum_of_warp(logs);
            if (lane == 0) own.part_log[warp] = logs;
        }
    }

    // What topics have in the bound, at the point that counts and prior describe: the last threads know it while others
    // begin with their words.
    __device__ __forceinline__ void judge() {
        const int judge = thread - (THREADS - JUDGES);
        double value = 0;
        if (JUDGES == 2 * MOST_TOPICS) {
            const int i = judge & (MOST_TOPICS - 1);
            if (judge >= 0 && i < active) {
                const double x = (double)(own.count[i] + own.alpha[own.row[i]]);
                value = judge < MOST_TOPICS ? ln_gamma_beyond(x) : rest_of_judge(i, x);
            }
        } else {
#pragma unroll 1
            for (int i = thread; i < active; i += THREADS) {
                const double x = (double)(own.count[i] + own.alpha[own.row[i]]);
                value += ln_gamma_beyond(x) + rest_of_judge(i, x);
            }
        }
        if (thread >= THREADS - JUDGES) {
            value = sum_of_warp(value);
            if (lane == 0) own.part_judge[warp] = value;
        }
    }

    __device__ __forceinline__ double rest_of_judge(int i, double x) {
        const float spread = own.spread[i];
        const double drift = spread > 0.f ? (double)own.count[i] * logf(spread) : 0;
        return -ln_gamma_steps(x) - own.ln_gamma[own.row[i]] - drift;
    }

    // count / norm, or nothing where either is.
    __device__ __forceinline__ float ratio_of(float number, float norm, bool with_logs) {
        if (with_logs && number > 0.f) logs += number * logf(norm);
        return norm > 0.f ? number / norm : 0.f;
    }

    // Few topics: a word's weights are read once, and held.
    template <int N> __device__ __forceinline__ void fused(bool with_logs) {
        float prior[N], sum[N];
        int from[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float2 p = own.prior[i];
            prior[i] = p.x;
            from[i] = __float_as_int(p.y);
            sum[i] = 0.f;
        }
        for (int u = thread; u < words; u += THREADS) {
            float weight[N], norm = 0.f;
#pragma unroll
            for (int i = 0; i < N; i++) weight[i] = block[from[i] + u];
#pragma unroll
            for (int i = 0; i < N; i++) norm = fmaf(prior[i], weight[i], norm);
            const float r = ratio_of(count[u], norm, with_logs);
#pragma unroll
            for (int i = 0; i < N; i++) sum[i] = fmaf(r, weight[i], sum[i]);
        }
        const float of_lane = sums_of_warp<N>(sum, lane);
        if (lane < N) own.part[warp][lane] = of_lane;
    }

    template <int WORDS> __device__ __forceinline__ void norms(int first, bool with_logs) {
        float norm[WORDS];
#pragma unroll
        for (int r = 0; r < WORDS; r++) norm[r] = 0.f;
#pragma unroll 4
        for (int i = 0; i < active; i++) {
            const float2 prior = own.prior[i];
            const float *row = block + __float_as_int(prior.y) + first;
#pragma unroll
            for (int r = 0; r < WORDS; r++) norm[r] = fmaf(prior.x, row[r * THREADS], norm[r]);
        }
#pragma unroll
        for (int r = 0; r < WORDS; r++) {
            const int u = first + r * THREADS;
            ratio[u] = ratio_of(count[u], norm[r], with_logs);
        }
    }

    // Many topics: first norms, a few words a thread, then counts with lanes being topics.
    __device__ __forceinline__ void wide(bool with_logs) {
        for (int first = thread; first < words; first += 4 * THREADS) {
            const int left = (words - first + THREADS - 1) / THREADS;
            if (left >= 4) norms<4>(first, with_logs);
            if (left == 2 || left == 3) norms<2>(first, with_logs);
            if (left == 1 || left == 3) norms<1>(first + (left - 1) * THREADS, with_logs);
        }
        if (FAR) return counts_from_afar();
        wait();
        const float *one = block + own.row[min(lane, active - 1)] * stride;
        const float *two = block + own.row[min(lane + 32, active - 1)] * stride;
        float of_one = 0.f, of_two = 0.f;
        if (active > 32) {
#pragma unroll 8
            for (int u = warp; u < words; u += WARPS) {
                const float r = ratio[u];
                of_one = fmaf(r, one[u], of_one);
                of_two = fmaf(r, two[u], of_two);
            }
        } else {
#pragma unroll 8
            for (int u = warp; u < words; u += WARPS) of_one = fmaf(ratio[u], one[u], of_one);
        }
        own.part[warp][lane] = of_one;
        own.part[warp][lane + 32] = of_two;
    }

    // Counts where rows are far: a thread has the words whose norms it knows, a few topics at a time, so that what is read
    // lies side by side.
    __device__ __forceinline__ void counts_from_afar() {
        constexpr int N = 16;
#pragma unroll 1
        for (int first = 0; first < active; first += N) {
            float sum[N];
            int from[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                sum[i] = 0.f;
                from[i] = own.row[min(first + i, active - 1)] * stride;
            }
            for (int u = thread; u < words; u += THREADS) {
                const float r = ratio[u];
#pragma unroll
                for (int i = 0; i < N; i++) sum[i] = fmaf(r, block[from[i] + u], sum[i]);
            }
            const float of_lane = sums_of_warp<N>(sum, lane);
            if (lane < N) own.part[warp][first + lane] = of_lane;
        }
    }

    // The first warp: new counts of the positions `lane` and `lane + 32`.
    __device__ __forceinline__ void next_counts(float &one, float &two) {
        one = two = 0.f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            if (lane < active) one += own.part[w][lane];
            if (lane + 32 < active) two += own.part[w][lane + 32];
        }
        if (lane < active) one *= own.prior[lane].x;
        if (lane + 32 < active) two *= own.prior[lane + 32].x;
        __syncwarp();
    }

    // The first warp: the new counts take the place of the old ones, and make the next prior.
    __device__ __forceinline__ void settle() {
        float one, two;
        next_counts(one, two);
        const bool has_one = lane < active, has_two = lane + 32 < active;
        const int row_one = has_one ? own.row[lane] : 0, row_two = has_two ? own.row[lane + 32] : 0;
        place(has_one, lane, one, row_one, has_two, lane + 32, two, row_two);
    }

    // The first warp: the new counts take the place of the old ones, and the prior that made them stays.
    __device__ __forceinline__ void keep_prior() {
        float one, two;
        next_counts(one, two);
        if (lane < active) own.count[lane] = one;
        if (lane + 32 < active) own.count[lane + 32] = two;
    }

    // The first warp: whether no count changes by as much as the tolerance.
    __device__ __forceinline__ bool rests() {
        float one, two;
        next_counts(one, two);
        const bool moved = (lane < active && !(fabsf(one - own.count[lane]) < step.tolerance))
            || (lane + 32 < active && !(fabsf(two - own.count[lane + 32]) < step.tolerance));
        return !__any_sync(~0u, moved);
    }

    // The first warp: the new counts take the place of the old ones, topics at the floor leave, and the rest make the next
    // prior.
    __device__ __forceinline__ void shrink() {
        float one, two, floor = step.active_floor;
        next_counts(one, two);
        const bool has_one = lane < active, has_two = lane + 32 < active;
        const int row_one = has_one ? own.row[lane] : 0, row_two = has_two ? own.row[lane + 32] : 0;
        int at_one = lane, at_two = lane + 32;
        bool stays_one = has_one, stays_two = has_two;
        const bool low = (has_one && !(one > floor)) || (has_two && !(two > floor));
        if (floor > 0.f && __any_sync(~0u, low)) {
            float most = fmaxf(one, two);
            for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
            floor = fminf(floor, 0.5f * most);
            stays_one = has_one && one > floor;
            stays_two = has_two && two > floor;
            const unsigned ones = __ballot_sync(~0u, stays_one), twos = __ballot_sync(~0u, stays_two);
            const unsigned before = (1u << lane) - 1;
            at_one = __popc(ones & before);
            at_two = __popc(ones) + __popc(twos & before);
            active = __popc(ones) + __popc(twos);
        }
        __syncwarp();
        place(stays_one, at_one, one, row_one, stays_two, at_two, two, row_two);
        pad(active);
    }

    // The first warp: the bound of the document at the point that counts, prior and norms describe, up to what no choice of
    // topics changes.
    __device__ __forceinline__ double bound() {
        double value = lane < WARPS ? own.part_log[lane] : 0;
        if (lane < WARPS && lane >= WARPS - JUDGES / 32) value += own.part_judge[lane];
        return sum_of_warp(value);
    }

    // The first warp: empty the smallest topic that was not tried yet, after keeping the state before. False if there is
    // none, or no proposal left.
    __device__ __forceinline__ bool propose() {
        __syncwarp();
        before = active;
        const bool has_one = lane < active, has_two = lane + 32 < active;
        if (has_one) count_one = own.count[lane], row_one = own.row[lane];
        if (has_two) count_two = own.count[lane + 32], row_two = own.row[lane + 32];
        const bool open_one = has_one && count_one > step.restart_floor && !((tried >> row_one) & 1);
        const bool open_two = has_two && count_two > step.restart_floor && !((tried >> row_two) & 1);
        float least = fminf(open_one ? count_one : INFINITY, open_two ? count_two : INFINITY);
        for (int o = 16; o; o >>= 1) least = fminf(least, __shfl_xor_sync(~0u, least, o));
        if (least == INFINITY || active < 2 || proposed >= step.restarts) return false;
        const unsigned ones = __ballot_sync(~0u, open_one && count_one == least);
        const unsigned twos = __ballot_sync(~0u, open_two && count_two == least);
        const int target = ones ? __ffs(ones) - 1 : 32 + __ffs(twos) - 1;
        tried |= 1ull << own.row[target];
        // Its mass goes to the others in proportion to what they have.
        float rest = (has_one && lane != target ? count_one : 0.f) + (has_two && lane + 32 != target ? count_two : 0.f);
        for (int o = 16; o; o >>= 1) rest += __shfl_xor_sync(~0u, rest, o);
        const float grow = rest > 0.f ? (rest + least) / rest : 1.f;
        __syncwarp();
        const int at_one = lane - (lane > target), at_two = lane + 32 - (lane + 32 > target);
        const bool stays_one = has_one && lane != target, stays_two = has_two && lane + 32 != target;
        place(stays_one, at_one, count_one * grow, row_one, stays_two, at_two, count_two * grow, row_two);
        active--;
        pad(active);
        proposed++;
        return true;
    }

    // The first warp: the state before the proposal.
    __device__ __forceinline__ void put_back() {
        __syncwarp();
        active = before;
        place(lane < active, lane, count_one, row_one, lane + 32 < active, lane + 32, count_two, row_two);
        pad(active);
    }

    // Iterate until the counts rest; topics at the floor leave. The prior that is left made the counts.
    __device__ __forceinline__ void iterate() {
        bool done = false;
        for (iterations = 1; !done; iterations++) {
            pass(false);
            wait();
            if (warp == 0) {
                done = iterations >= step.iterations || (iterations % CHECK_EVERY == 0 && rests());
                if (done) keep_prior();
                else shrink();
                if (lane == 0) {
                    own.active = active;
                    own.phase = done || active == 0;
                }
            }
            wait();
            active = own.active;
            done = own.phase;
        }
        iterations--;
    }

    // The first warp: what follows from a pass. Gives what the next one is for.
    __device__ __forceinline__ int turn(int phase) {
        if (phase == END) {
            keep_prior();
            return DONE;
        }
        const bool judges = phase == BEGIN || phase == JUDGE;
        const double value = judges ? bound() : 0;
        if (phase == JUDGE && !(value > best)) {
            put_back();
        } else {
            settle();
            accepted += phase == JUDGE;
            best = judges ? value : best;
        }
        if (judges) return active <= (int)step.above ? PAUSE : propose() ? FIRST : END;
        return phase == FIRST ? SECOND : JUDGE;
    }

    // Try to empty topics, the smallest first; each is kept empty only if the bound rises. The prior that is left made the
    // counts. False if the next launch goes on.
    __device__ __forceinline__ bool restart(bool goes_on) {
        int phase = BEGIN;
        if (goes_on) phase = agree(warp == 0 ? (propose() ? FIRST : END) : 0);
        while (phase < DONE) {
            pass(phase == BEGIN || phase == JUDGE);
            wait();
            phase = agree(warp == 0 ? turn(phase) : 0);
        }
        return phase == DONE;
    }

    // What the first warp has decided, and how many topics there are now.
    __device__ __forceinline__ int agree(int phase) {
        if (thread == 0) {
            own.active = active;
            own.phase = phase;
        }
        wait();
        active = own.active;
        return own.phase;
    }

    // Leave the document to the next launch.
    __device__ void leave(unsigned d) {
        if (warp > 0) return;
        for (int i = lane; i < active; i += 32) {
            const int row = own.row[i];
            step.left_topic[(size_t)d * MOST_TOPICS + i] = own.topic[row] | ((tried >> row) & 1 ? TRIED : 0);
            step.left_count[(size_t)d * MOST_TOPICS + i] = own.count[i];
        }
        if (lane == 0) {
            Found &found = step.found[d];
            found.active = active;
            found.proposed = proposed;
            found.accepted = accepted;
            found.evidence = best;
            found.solved = GOES_ON;
        }
    }

    // One responsibility: into the statistics and the document's counts.
    __device__ __forceinline__ void add(int u, int position, float share, float unit) {
        const float mass = count[u] * share;
        const size_t at = (size_t)word[u] * step.num_topics + own.topic[own.row[position]];
        atomicAdd(step.stats + at, (u64)__float2ull_rn(mass * step.unit));
        atomicAdd(own.fixed + position, __float2uint_rn(mass * unit));
    }

    // Top L of the active topics for every token, under the prior that made the counts; what leaves the document.
    __device__ void select(float unit, double &entropy) {
        for (int i = thread; i < active; i += THREADS) own.fixed[i] = 0;
        wait();
        logs = entropy = 0;
        const int kept = min((int)step.sparsity, active);
        for (int u = thread; u < words; u += THREADS) {
            float sum = 0.f, inner = 0.f;
            if (kept <= MOST_KEPT) {
                float value[MOST_KEPT];
                int position[MOST_KEPT];
#pragma unroll
                for (int j = 0; j < MOST_KEPT; j++) value[j] = -1.f, position[j] = 0;
#pragma unroll 1
                for (int i = 0; i < active; i++) {
                    const float2 prior = own.prior[i];
                    float weight = prior.x * block[__float_as_int(prior.y) + u];
                    if (weight > value[MOST_KEPT - 1]) {
                        int at = i;
#pragma unroll
                        for (int j = 0; j < MOST_KEPT; j++) {
                            const bool larger = weight > value[j];
                            const float behind = larger ? value[j] : weight;
                            const int behind_at = larger ? position[j] : at;
                            value[j] = larger ? weight : value[j];
                            position[j] = larger ? at : position[j];
                            weight = behind;
                            at = behind_at;
                        }
                    }
                }
#pragma unroll
                for (int j = 0; j < MOST_KEPT; j++) sum += j < kept ? value[j] : 0.f;
#pragma unroll
                for (int j = 0; j < MOST_KEPT; j++) {
                    if (j < kept) share_of(u, position[j], value[j], sum, kept, unit, inner);
                }
            } else {
                // A topic is among the L largest if fewer than L come before it.
#pragma unroll 1
                for (int round = 0; round < 2; round++) {
#pragma unroll 1
                    for (int i = 0; i < active; i++) {
                        const float weight = own.prior[i].x * block[__float_as_int(own.prior[i].y) + u];
                        int ahead = 0;
#pragma unroll 1
                        for (int j = 0; j < active && kept < active && ahead < kept; j++) {
                            const float other = own.prior[j].x * block[__float_as_int(own.prior[j].y) + u];
                            ahead += other > weight || (other == weight && j < i);
                        }
                        if (ahead >= kept) continue;
                        if (round == 0) sum += weight;
                        else share_of(u, i, weight, sum, kept, unit, inner);
                    }
                }
            }
            entropy -= (double)count[u] * inner;
            if (count[u] > 0.f) logs += count[u] * logf(fmaxf(sum, 1.17549435e-38f));
        }
        logs = sum_of_warp(logs);
        entropy = sum_of_warp(entropy);
        if (lane == 0) own.part_log[warp] = logs, own.part_entropy[warp] = entropy;
        wait();
    }

    __device__ __forceinline__ void share_of(int u, int position, float weight, float sum, int kept, float unit, float &inner) {
        // A word that no active topic knows is anybody's.
        const float share = sum > 0.f ? weight / sum : 1.f / kept;
        if (share > 0.f) {
            inner = fmaf(share, logf(fmaxf(share, 1.17549435e-38f)), inner);
            add(u, position, share, unit);
        }
    }

    // The first warp: counts of the responsibilities that left, and what the objective needs of them.
    __device__ void finish(unsigned d, float unit) {
        double alloc = 0, drift = 0, log_sum = 0, entropy = 0;
#pragma unroll 1
        for (int i = lane; i < active; i += 32) {
            const int row = own.row[i];
            const float number = (float)own.fixed[i] / unit, spread = own.spread[i];
            alloc += ln_gamma((double)(number + own.alpha[row])) - own.ln_gamma[row];
            if (number > 0.f && spread > 0.f) drift += (double)number * logf(spread);
            step.left_topic[(size_t)d * MOST_TOPICS + i] = own.topic[row];
            step.left_count[(size_t)d * MOST_TOPICS + i] = number;
        }
        for (int w = lane; w < WARPS; w += 32) {
            log_sum += own.part_log[w];
            entropy += own.part_entropy[w];
        }
        alloc = sum_of_warp(alloc);
        drift = sum_of_warp(drift);
        log_sum = sum_of_warp(log_sum);
        entropy = sum_of_warp(entropy);
        if (lane == 0) {
            const double tokens = step.tokens[d];
            alloc += step.alpha_sum_ln_gamma - ln_gamma(tokens + step.alpha_sum);
            Found &found = step.found[d];
            found.entropy = entropy;
            found.alloc = alloc;
            found.evidence = alloc - drift + log_sum;
            found.active = active;
            found.proposed = proposed;
            found.accepted = accepted;
            found.solved = SOLVED;
        }
    }

    // A power of two that makes all tokens of the document less than 2^31.
    __device__ float unit_of(unsigned d) { return ldexpf(1.f, 30 - ilogbf(step.tokens[d])); }

    __device__ void first(unsigned d) {
        open(d);
        wait();
        const unsigned from = step.warm_first ? step.warm_first[d] : 0, to = step.warm_first ? step.warm_first[d + 1] : 0;
        if (!(from < to ? begin_with(from, to) : begin_by_word(unit_of(d)))) return;
        gather();
        iterate();
        if (active == 0) return;
        for (int i = thread; i < active; i += THREADS) {
            step.left_topic[(size_t)d * MOST_TOPICS + i] = own.topic[own.row[i]];
            step.left_count[(size_t)d * MOST_TOPICS + i] = own.count[i];
            step.left_spread[(size_t)d * MOST_TOPICS + i] = own.spread[i];
        }
        if (thread == 0) {
            step.found[d].active = active;
            step.found[d].iterations = iterations;
            step.found[d].solved = WAITS;
        }
    }

    __device__ void rest(unsigned d) {
        const Found &found = step.found[d];
        active = found.active;
        if (found.solved < WAITS || active <= (int)step.above || active > (int)step.most_active) return;
        const bool goes_on = found.solved == GOES_ON;
        proposed = goes_on ? found.proposed : 0;
        accepted = goes_on ? found.accepted : 0;
        best = goes_on ? found.evidence : 0;
        open(d);
        const unsigned *left = step.left_topic + (size_t)d * MOST_TOPICS;
        for (int i = thread; i < active; i += THREADS) {
            own.topic[i] = left[i] & ~TRIED;
            own.count[i] = step.left_count[(size_t)d * MOST_TOPICS + i];
        }
        // Rows are in the order of positions now.
        const unsigned ones = __ballot_sync(~0u, lane < active && (left[lane] & TRIED));
        const unsigned twos = __ballot_sync(~0u, lane + 32 < active && (left[lane + 32] & TRIED));
        tried = ones | (u64)twos << 32;
        wait();
        gather();
        if (goes_on || (step.restarts > 0 && active >= 2)) {
            if (!restart(goes_on)) return leave(d);
        } else {
            // The prior that made the counts, not the one that they make.
            for (int i = thread; i < active; i += THREADS) {
                own.spread[i] = step.left_spread[(size_t)d * MOST_TOPICS + i];
                own.prior[i].x = own.spread[i] * own.scale[i];
            }
        }
        double entropy;
        const float unit = unit_of(d);
        select(unit, entropy);
        if (warp == 0) finish(d, unit);
    }
};

template <int THREADS, bool FAR, bool REST, Topics TOPICS> __device__ __forceinline__ void documents(const Step &step) {
    DYNAMIC_SHARED(room);
    __shared__ typename Document<THREADS, FAR, TOPICS>::Shared own;
    for (unsigned at = blockIdx.x; at < step.num_documents; at += gridDim.x) {
        Document<THREADS, FAR, TOPICS> document(step, own, room);
        if (REST) document.rest(step.order[at]);
        else document.first(step.order[at]);
        wait_for_all<THREADS>();
    }
}

#define DOCUMENTS(name, threads, blocks, is_far, is_rest, topics) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Step step) { \
        documents<threads, is_far, is_rest, topics>(step); \
    }
DOCUMENTS(first_32, 32, 1, false, false, ANY)
DOCUMENTS(first_128, 128, 1, false, false, ANY)
DOCUMENTS(first_256, 256, 1, false, false, ANY)
DOCUMENTS(first_512, 512, 1, false, false, ANY)
DOCUMENTS(first_far, 512, 1, true, false, ANY)
DOCUMENTS(rest_32, 32, 20, false, true, FEW)
DOCUMENTS(rest_64, 64, 10, false, true, FEW)
DOCUMENTS(rest_128, 128, 5, false, true, FEW)
DOCUMENTS(rest_256, 256, 2, false, true, FEW)
DOCUMENTS(rest_512, 512, 1, false, true, FEW)
DOCUMENTS(rest_far, 512, 1, true, true, ANY)
DOCUMENTS(wide_32, 32, 32, false, true, MANY)
DOCUMENTS(wide_64, 64, 16, false, true, MANY)
DOCUMENTS(wide_128, 128, 8, false, true, MANY)
DOCUMENTS(wide_256, 256, 4, false, true, MANY)
DOCUMENTS(wide_512, 512, 2, false, true, MANY)

// The entries of each word: topics that have any of it. A warp a word.
extern "C" __global__ void count_entries(const u64 *stats, unsigned vocab_size, unsigned num_topics, unsigned *number) {
    const unsigned v = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (v >= vocab_size) return;
    unsigned there = 0;
    for (unsigned k = lane; k < num_topics; k += 32) there += stats[(size_t)v * num_topics + k] != 0;
    there = __reduce_add_sync(~0u, there);
    if (lane == 0) number[v] = there;
}

// Word by word the topics that have any of it, ascending, and how much, from place first[v] on. A warp a word.
extern "C" __global__ void write_entries(
    const u64 *stats, unsigned vocab_size, unsigned num_topics, double unit, const unsigned *first, unsigned *topic, float *mass
) {
    const unsigned v = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (v >= vocab_size) return;
    unsigned to = first[v];
    for (unsigned k = 0; k < num_topics; k += 32) {
        const u64 units = k + lane < num_topics ? stats[(size_t)v * num_topics + k + lane] : 0;
        const unsigned there = __ballot_sync(~0u, units != 0);
        if (units != 0) {
            const unsigned at = to + __popc(there & ((1u << lane) - 1));
            topic[at] = k + lane;
            mass[at] = (float)((double)units / unit);
        }
        to += __popc(there);
    }
}

// Units of each topic over all words, a stretch of words a block. `total` is to be zero before.
extern "C" __global__ void add_words(const u64 *stats, unsigned vocab_size, unsigned num_topics, u64 *total) {
    const unsigned chunk = (vocab_size + gridDim.x - 1) / gridDim.x;
    const unsigned begin = blockIdx.x * chunk, end = min(vocab_size, begin + chunk);
    for (unsigned k = threadIdx.x; k < num_topics; k += blockDim.x) {
        u64 units = 0;
        for (unsigned v = begin; v < end; v++) units += stats[(size_t)v * num_topics + k];
        if (units) atomicAdd(total + k, units);
    }
}
