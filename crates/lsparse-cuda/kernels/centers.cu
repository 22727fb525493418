// Greedy k-means++ over a sample of rows, and the nearest of many centres.
//
// Rows lie as the CPU has them, tiles of rows side by side, and every number is made by the CPU's operations in the CPU's
// order: scores are chains of fused multiply-adds over the columns, sums are taken by tiles of 64 rows, by 64 such tiles, and
// so on. So both draw the same seeds and find the same centres, to the last bit.
#include <math_constants.h>
#include <stdint.h>

// Rows whose chances and distances are summed one after the other, and sums that are summed one after the other.
constexpr unsigned GROUP = 64;
// Rows that are tried for a seed, at most.
constexpr int MOST_TRIES = 8;

template <class T> struct Points {
    // Column d of row n is at (n / tile * dim + d) * tile + n % tile.
    const T *values;
    const T *norms;
    const double *weights;
    // Squared distance from the nearest seed so far, and which one that is.
    T *nearest;
    unsigned *owner;
    // Distances from the rows that are tried, those of a try one behind the other.
    T *found;
    // What each try would leave, and chances, by groups of rows.
    double *left, *chances;
    // Rows that are tried, and how many; seeds so far; the number of the first that could not be drawn is `failed`.
    unsigned *tried, *seeds, *failed;
    // Where chances are drawn: so many numbers a seed, sorted.
    const double *shares;
    double epsilon;
    unsigned num_rows, dim, tile, tries;
};

__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ inline double sub(double a, double b) { return __dsub_rn(a, b); }
__device__ inline float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }

// |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2); what rounding alone may have left counts as zero.
template <class T> __device__ T distance(T norm, T score, T center_norm, T noise) {
    const T apart = sub(norm, add(score, score));
    return apart > mul(noise, add(norm, center_norm)) ? apart : T(0);
}

// Rows of a block: four groups.
constexpr unsigned ROWS = 4 * GROUP;
// Columns of the tries that are in shared memory at a time.
constexpr unsigned COLUMNS = 64;

// Distances of all rows from those that are tried for seed `number`, and what each would leave.
template <class T> __device__ void try_rows(const Points<T> &p, unsigned number) {
    __shared__ T centers[MOST_TRIES][COLUMNS];
    __shared__ double lost[MOST_TRIES][ROWS];
    if (*p.failed != ~0u) return;
    // The first seed is given.
    const unsigned tries = number == 0 ? 1 : p.tries, n = blockIdx.x * ROWS + threadIdx.x;
    const bool is_row = n < p.num_rows;
    const T *row = p.values + (size_t)(is_row ? n / p.tile : 0) * p.dim * p.tile + n % p.tile;
    T score[MOST_TRIES], norm_of[MOST_TRIES];
#pragma unroll
    for (int t = 0; t < MOST_TRIES; t++) {
        if (t < tries) norm_of[t] = p.norms[p.tried[t]], score[t] = mul(T(-0.5), norm_of[t]);
    }
    for (unsigned from = 0; from < p.dim; from += COLUMNS) {
        const unsigned columns = min(COLUMNS, p.dim - from);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < tries * COLUMNS; i += ROWS) {
            const unsigned t = i / COLUMNS, d = i % COLUMNS, c = p.tried[t];
            if (d < columns) centers[t][d] = p.values[((size_t)(c / p.tile) * p.dim + from + d) * p.tile + c % p.tile];
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned d = 0; d < columns; d++) {
            const T x = row[(size_t)(from + d) * p.tile];
#pragma unroll
            for (int t = 0; t < MOST_TRIES; t++) {
                if (t < tries) score[t] = fma(centers[t][d], x, score[t]);
            }
        }
    }
    const T norm = is_row ? p.norms[n] : T(0), near = is_row && number > 0 ? p.nearest[n] : T(0);
    const double weight = is_row ? p.weights[n] : 0;
#pragma unroll
    for (int t = 0; t < MOST_TRIES; t++) {
        if (t >= tries) break;
        const T apart = distance(norm, score[t], norm_of[t], T(8 * p.epsilon));
        if (is_row) p.found[(size_t)t * p.num_rows + n] = apart;
        lost[t][threadIdx.x] = mul(weight, (double)(number > 0 && near < apart ? near : apart));
    }
    __syncthreads();
    // A group is summed by one thread.
    if (threadIdx.x < 4 * tries) {
        const unsigned t = threadIdx.x / 4, g = threadIdx.x % 4, group = blockIdx.x * 4 + g;
        double sum = 0;
        for (unsigned r = 0; r < GROUP; r++) sum = add(sum, lost[t][g * GROUP + r]);
        const unsigned groups = (p.num_rows + GROUP - 1) / GROUP;
        if (group < groups) p.left[(size_t)t * groups + group] = sum;
    }
}

constexpr unsigned CHOOSERS = 1024;

// One number after the other.
__device__ inline double sum_of(const double *numbers, unsigned from, unsigned to) {
    double sum = 0;
#pragma unroll 8
    for (unsigned i = from; i < to; i++) sum = add(sum, numbers[i]);
    return sum;
}

// The try that leaves the least becomes the seed. One block.
template <class T> __device__ void take_best(const Points<T> &p, unsigned number) {
    extern __shared__ double sums[];
    __shared__ double totals[MOST_TRIES];
    if (*p.failed != ~0u) return;
    const unsigned tries = number == 0 ? 1 : p.tries, groups = (p.num_rows + GROUP - 1) / GROUP;
    const unsigned tasks = (groups + GROUP - 1) / GROUP;
    for (unsigned i = threadIdx.x; i < tries * tasks; i += CHOOSERS) {
        const unsigned t = i / tasks, task = i % tasks;
        sums[i] = sum_of(p.left + (size_t)t * groups, task * GROUP, min(groups, (task + 1) * GROUP));
    }
    __syncthreads();
    if (threadIdx.x < tries) totals[threadIdx.x] = sum_of(sums, threadIdx.x * tasks, (threadIdx.x + 1) * tasks);
    __syncthreads();
    if (threadIdx.x == 0) {
        // Rows that are tried are sorted: of equal ones the first.
        unsigned best = 0;
        for (unsigned t = 1; t < tries; t++) {
            if (totals[t] < totals[best]) best = t;
        }
        p.seeds[number] = p.tried[best];
        p.tried[MOST_TRIES] = best;
    }
}

// Rows that the seed is nearer to than all before belong to it, and have new chances.
template <class T> __device__ void settle(const Points<T> &p, unsigned number) {
    __shared__ double chance[ROWS];
    if (*p.failed != ~0u) return;
    const unsigned n = blockIdx.x * ROWS + threadIdx.x, seed = p.seeds[number], best = p.tried[MOST_TRIES];
    chance[threadIdx.x] = 0;
    if (n < p.num_rows) {
        const T apart = p.found[(size_t)best * p.num_rows + n];
        T near = number == 0 ? apart : p.nearest[n];
        const bool moves = number == 0 || apart < near || n == seed;
        if (moves) near = n == seed ? T(0) : apart, p.nearest[n] = near, p.owner[n] = number;
        chance[threadIdx.x] = mul(p.weights[n], (double)near);
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        const unsigned group = blockIdx.x * 4 + threadIdx.x;
        const double sum = sum_of(chance, threadIdx.x * GROUP, (threadIdx.x + 1) * GROUP);
        if (group < (p.num_rows + GROUP - 1) / GROUP) p.chances[group] = sum;
    }
}

// The first of some sums, one behind the other, that `point` does not pass, or the last that is above zero; `point` becomes
// what is left of it there.
__device__ inline unsigned descend(const double *sums, unsigned from, unsigned to, double &point) {
    unsigned last = ~0u;
    double before = point;
    for (unsigned i = from; i < to; i++) {
        const double sum = sums[i];
        if (!(sum > 0)) continue;
        last = i, before = point;
        if (point <= sum) return i;
        point = sub(point, sum);
    }
    point = before;
    return last;
}

// Draw the rows that are tried for seed `number`. One block.
template <class T> __device__ void draw_rows(const Points<T> &p, unsigned number) {
    extern __shared__ double sums[];
    __shared__ double total, part[MOST_TRIES][GROUP];
    __shared__ unsigned at[MOST_TRIES];
    if (*p.failed != ~0u) return;
    const unsigned groups = (p.num_rows + GROUP - 1) / GROUP, tasks = (groups + GROUP - 1) / GROUP;
    for (unsigned task = threadIdx.x; task < tasks; task += CHOOSERS) {
        sums[task] = sum_of(p.chances, task * GROUP, min(groups, (task + 1) * GROUP));
    }
    __syncthreads();
    if (threadIdx.x == 0) total = sum_of(sums, 0, tasks);
    __syncthreads();
    // A thread goes down for each try; what it is to look at is read by all.
    const bool draws = threadIdx.x < p.tries;
    const unsigned t = threadIdx.x / GROUP, place = threadIdx.x % GROUP;
    double point = 0;
    if (draws) {
        point = mul(p.shares[(size_t)(number - 1) * p.tries + threadIdx.x], total);
        at[threadIdx.x] = descend(sums, 0, tasks, point);
    }
    __syncthreads();
    // All tries find nothing, or none does.
    if (at[0] == ~0u) {
        if (threadIdx.x == 0) *p.failed = number;
        return;
    }
    if (t < p.tries) {
        const unsigned group = at[t] * GROUP + place;
        part[t][place] = group < groups ? p.chances[group] : 0;
    }
    __syncthreads();
    if (draws) at[threadIdx.x] = at[threadIdx.x] * GROUP + descend(part[threadIdx.x], 0, GROUP, point);
    __syncthreads();
    if (t < p.tries) {
        const unsigned n = at[t] * GROUP + place;
        part[t][place] = n < p.num_rows ? mul(p.weights[n], (double)p.nearest[n]) : 0;
    }
    __syncthreads();
    if (draws) p.tried[threadIdx.x] = at[threadIdx.x] * GROUP + descend(part[threadIdx.x], 0, GROUP, point);
}

// Rows of a block, columns that are in shared memory at a time, and rows of a thread.
constexpr int BLOCK_ROWS = 128, DEPTH = 16, EACH_ROWS = 8;
constexpr int NEARERS = 256, ACROSS = 16;

// The centre with the largest score x.c + at_zero of every row, of equal ones the first, and that score. Column d of centre k
// is at d * padded + k; those behind the last centre have scores of minus infinity. EACH centres a thread at a time.
template <class T, int EACH>
__device__ void nearest(
    const T *values, unsigned num_rows, unsigned dim, unsigned tile, const T *centers, const T *at_zero, unsigned padded,
    unsigned *owner, T *scores
) {
    constexpr int BLOCK_CENTERS = ACROSS * EACH;
    __shared__ __align__(16) T x[DEPTH][BLOCK_ROWS];
    __shared__ __align__(16) T c[DEPTH][BLOCK_CENTERS];
    const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS * EACH_ROWS;
    T best[EACH_ROWS];
    unsigned at[EACH_ROWS];
#pragma unroll
    for (int r = 0; r < EACH_ROWS; r++) best[r] = -CUDART_INF, at[r] = ~0u;
    for (unsigned first = 0; first < padded; first += BLOCK_CENTERS) {
        T score[EACH_ROWS][EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const T start = at_zero[first + across * EACH + j];
#pragma unroll
            for (int r = 0; r < EACH_ROWS; r++) score[r][j] = start;
        }
        for (unsigned from = 0; from < dim; from += DEPTH) {
            __syncthreads();
            for (int i = threadIdx.x; i < DEPTH * BLOCK_ROWS; i += NEARERS) {
                const unsigned r = i % BLOCK_ROWS, d = i / BLOCK_ROWS, n = blockIdx.x * BLOCK_ROWS + r;
                const bool is_there = n < num_rows && from + d < dim;
                x[d][r] = is_there ? values[((size_t)(n / tile) * dim + from + d) * tile + n % tile] : T(0);
            }
            for (int i = threadIdx.x; i < DEPTH * BLOCK_CENTERS; i += NEARERS) {
                const unsigned k = i % BLOCK_CENTERS, d = i / BLOCK_CENTERS;
                c[d][k] = from + d < dim ? centers[(size_t)(from + d) * padded + first + k] : T(0);
            }
            __syncthreads();
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                T row[EACH_ROWS], center[EACH];
#pragma unroll
                for (int r = 0; r < EACH_ROWS; r++) row[r] = x[d][down + r];
#pragma unroll
                for (int j = 0; j < EACH; j++) center[j] = c[d][across * EACH + j];
#pragma unroll
                for (int r = 0; r < EACH_ROWS; r++) {
#pragma unroll
                    for (int j = 0; j < EACH; j++) score[r][j] = fma(center[j], row[r], score[r][j]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < EACH_ROWS; r++) {
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                if (score[r][j] > best[r]) best[r] = score[r][j], at[r] = first + across * EACH + j;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < EACH_ROWS; r++) {
        for (int o = ACROSS / 2; o; o >>= 1) {
            const T other = __shfl_xor_sync(~0u, best[r], o);
            const unsigned there = __shfl_xor_sync(~0u, at[r], o);
            if (other > best[r] || (other == best[r] && there < at[r])) best[r] = other, at[r] = there;
        }
        const unsigned n = blockIdx.x * BLOCK_ROWS + down + r;
        if (across == 0 && n < num_rows) owner[n] = at[r], scores[n] = best[r];
    }
}

#define KERNELS(T, SUFFIX, EACH)                                                                                           \
    extern "C" __global__ void __launch_bounds__(ROWS)                                                                     \
        try_rows_##SUFFIX(const __grid_constant__ Points<T> points, unsigned number) {                                     \
        try_rows(points, number);                                                                                          \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(CHOOSERS)                                                                 \
        take_best_##SUFFIX(const __grid_constant__ Points<T> points, unsigned number) {                                    \
        take_best(points, number);                                                                                         \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(ROWS)                                                                     \
        settle_##SUFFIX(const __grid_constant__ Points<T> points, unsigned number) {                                       \
        settle(points, number);                                                                                            \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(CHOOSERS)                                                                 \
        draw_rows_##SUFFIX(const __grid_constant__ Points<T> points, unsigned number) {                                    \
        draw_rows(points, number);                                                                                         \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(NEARERS, 2) nearest_##SUFFIX(                                             \
        const T *values, unsigned num_rows, unsigned dim, unsigned tile, const T *centers, const T *at_zero,               \
        unsigned padded, unsigned *owner, T *scores                                                                        \
    ) {                                                                                                                    \
        nearest<T, EACH>(values, num_rows, dim, tile, centers, at_zero, padded, owner, scores);                            \
    }

KERNELS(float, f32, 8)
KERNELS(double, f64, 4)
