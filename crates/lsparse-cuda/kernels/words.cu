// Statistics of words: the sum of what batches gave, and the topics that come of it as documents see them.
//
// A total is V x K numbers in double precision. Lists are added to it one after the other, each entry by one thread, with
// the operations of a processor: the same order gives the same bits there and here.
#include <stdint.h>

typedef unsigned long long u64;

// Lists of topics and mass, word by word, times a factor. What is taken away leaves nothing below zero. A warp a word.
template <class Mass> __device__ __forceinline__ void add_lists(
    const unsigned *first, const unsigned *topic, const Mass *mass, double factor, unsigned vocab_size, unsigned num_topics,
    double *total
) {
    const unsigned v = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (v >= vocab_size) return;
    const unsigned end = first[v + 1];
    for (unsigned i = first[v] + lane; i < end; i += 32) {
        double *at = total + (size_t)v * num_topics + topic[i];
        *at = fmax(__dadd_rn(*at, __dmul_rn(factor, (double)mass[i])), 0.0);
    }
}

extern "C" __global__ void add_batch(
    const unsigned *first, const unsigned *topic, const float *mass, double factor, unsigned vocab_size, unsigned num_topics,
    double *total
) {
    add_lists(first, topic, mass, factor, vocab_size, num_topics, total);
}

extern "C" __global__ void add_doubles(
    const unsigned *first, const unsigned *topic, const double *mass, double factor, unsigned vocab_size, unsigned num_topics,
    double *total
) {
    add_lists(first, topic, mass, factor, vocab_size, num_topics, total);
}

extern "C" __global__ void add_total(const double *other, double factor, u64 number, double *total) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < number; i += (u64)gridDim.x * blockDim.x) {
        total[i] = fmax(__dadd_rn(total[i], __dmul_rn(factor, other[i])), 0.0);
    }
}

extern "C" __global__ void scale_total(double factor, u64 number, double *total) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < number; i += (u64)gridDim.x * blockDim.x) {
        total[i] = __dmul_rn(total[i], factor);
    }
}

// The entries of each word: topics that have any of it. A warp a word.
extern "C" __global__ void count_words(const double *total, unsigned vocab_size, unsigned num_topics, unsigned *number) {
    const unsigned v = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (v >= vocab_size) return;
    unsigned there = 0;
    for (unsigned k = lane; k < num_topics; k += 32) there += total[(size_t)v * num_topics + k] > 0.0;
    there = __reduce_add_sync(~0u, there);
    if (lane == 0) number[v] = there;
}

// Word by word the topics that have any of it, ascending, and how much, from place first[v] on. A warp a word.
template <class Mass> __device__ __forceinline__ void write_lists(
    const double *total, unsigned vocab_size, unsigned num_topics, const unsigned *first, unsigned *topic, Mass *mass
) {
    const unsigned v = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (v >= vocab_size) return;
    unsigned to = first[v];
    for (unsigned k = 0; k < num_topics; k += 32) {
        const double value = k + lane < num_topics ? total[(size_t)v * num_topics + k + lane] : 0.0;
        const unsigned there = __ballot_sync(~0u, value > 0.0);
        if (value > 0.0) {
            const unsigned at = to + __popc(there & ((1u << lane) - 1));
            topic[at] = k + lane;
            mass[at] = (Mass)value;
        }
        to += __popc(there);
    }
}

extern "C" __global__ void write_batch(
    const double *total, unsigned vocab_size, unsigned num_topics, const unsigned *first, unsigned *topic, float *mass
) {
    write_lists(total, vocab_size, num_topics, first, topic, mass);
}

extern "C" __global__ void write_doubles(
    const double *total, unsigned vocab_size, unsigned num_topics, const unsigned *first, unsigned *topic, double *mass
) {
    write_lists(total, vocab_size, num_topics, first, topic, mass);
}

// psi(x) of x above zero: the series at x + 10, less the ten steps that lead there. The first term of the series that is
// left out is z^7 / 12, below 9e-16; roundings are a few of the last place of the largest step.
__device__ __noinline__ double digamma(double x) {
    double steps = 0;
#pragma unroll
    for (int i = 9; i >= 0; i--) steps += 1 / (x + i);
    const double y = x + 10, r = 1 / y, z = r * r;
    const double inner = 1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760)));
    const double series = z * (1.0 / 12 - z * (1.0 / 120 - z * inner));
    return log(y) - 0.5 * r - series - steps;
}

constexpr int THREADS = 256;

// Of each word: exp(psi(S + lambda)) under a posterior, else S + lambda, for every topic, with what pulls it (lists of each
// word, topics ascending; may be null); and its share in the data term, summed in an order that K alone decides. A topic
// that has none of a word and is not pulled by it has `none`, and `none_term` in the data term. A block a word.
extern "C" __global__ void __launch_bounds__(THREADS) write_table(
    const double *total, const unsigned *pull_first, const unsigned *pull_topic, const float *pull_mass, unsigned num_topics,
    unsigned width, double lambda, unsigned posterior, float none, double none_term, float *table, double *terms
) {
    __shared__ double part[THREADS / 32];
    const unsigned v = blockIdx.x;
    const double *from = total + (size_t)v * num_topics;
    float *row = table + (size_t)v * width;
    const unsigned begin = pull_first ? pull_first[v] : 0, end = pull_first ? pull_first[v + 1] : 0;
    double term = 0;
    unsigned absent = 0;
    for (unsigned k = threadIdx.x; k < width; k += THREADS) {
        float value = 0.f;
        if (k < num_topics) {
            const double mass = from[k];
            double count = mass + lambda;
            bool there = mass > 0.0;
            if (begin < end) {
                unsigned low = begin, high = end;
                while (low < high) {
                    const unsigned middle = (low + high) / 2;
                    if (pull_topic[middle] < k) low = middle + 1;
                    else high = middle;
                }
                if (low < end && pull_topic[low] == k) {
                    count += (double)pull_mass[low];
                    there = true;
                }
            }
            value = none;
            if (!there) {
                absent++;
            } else if (posterior) {
                value = (float)exp(digamma(count));
                term += lgamma(count);
            } else {
                value = (float)count;
                term += count * log(count);
            }
        }
        row[k] = value;
    }
    term += absent * none_term;
    for (int o = 16; o; o >>= 1) term += __shfl_xor_sync(~0u, term, o);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = term;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int w = 0; w < THREADS / 32; w++) sum += part[w];
        terms[v] = sum;
    }
}

constexpr int START_THREADS = 128;

// The topics that each word starts a document with: the `kept` largest of its weights times the topics' scales, of equal
// ones the first, normalised over those kept. A word whose first place is shared by more topics than are kept says nothing.
// K is larger than `kept`. Weights are held in shared memory where there is room for them. A block a word.
extern "C" __global__ void __launch_bounds__(START_THREADS) write_starts(
    const float *table, const float *scale, unsigned num_topics, unsigned width, unsigned kept, unsigned holds,
    unsigned *start_topic, float *start_value
) {
    extern __shared__ float held[];
    __shared__ u64 part[START_THREADS / 32];
    const unsigned v = blockIdx.x;
    const float *row = table + (size_t)v * width;
    unsigned *topic = start_topic + (size_t)v * kept;
    float *value = start_value + (size_t)v * kept;
    if (holds) {
        for (unsigned k = threadIdx.x; k < num_topics; k += START_THREADS) held[k] = __fmul_rn(row[k], scale[k]);
    }
    u64 before = ~0ull;
    float largest = 0.f, last = 0.f, sum = 0.f;
    for (unsigned round = 0; round <= kept; round++) {
        // Weights are not negative: their bits are in their order.
        u64 best = 0;
        for (unsigned k = threadIdx.x; k < num_topics; k += START_THREADS) {
            const float weight = holds ? held[k] : __fmul_rn(row[k], scale[k]);
            const u64 key = (u64)__float_as_uint(weight) << 32 | (~k & 0xffffffffu);
            if (key < before && key > best) best = key;
        }
        for (int o = 16; o; o >>= 1) {
            const u64 other = __shfl_xor_sync(~0u, best, o);
            best = other > best ? other : best;
        }
        __syncthreads();
        if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = best;
        __syncthreads();
        for (int w = 0; w < START_THREADS / 32; w++) best = part[w] > best ? part[w] : best;
        before = best;
        last = __uint_as_float((unsigned)(best >> 32));
        if (round == 0) largest = last;
        if (threadIdx.x == 0 && round < kept) {
            topic[round] = ~(unsigned)best;
            value[round] = last;
            sum = __fadd_rn(sum, last);
        }
    }
    if (threadIdx.x == 0) {
        const bool nothing = last == largest || !(sum > 0.f);
        for (unsigned i = 0; i < kept; i++) value[i] = nothing ? 0.f : __fdiv_rn(value[i], sum);
    }
}
