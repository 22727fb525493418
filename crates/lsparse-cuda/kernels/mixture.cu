// The local step of a mixture whose clusters weigh a row by a constant less half a quadratic form, ||M_k (x - m_k)||^2.
//
// Rows are whitened once and kept in FP16 besides. A lap screens all clusters of a row on tensor cores with a bound on
// the error (screen), decides what is left in FP64 (decide, choose), and sums statistics in FP64 over the pairs of row and
// cluster in the order of clusters and rows (statistics, reduce). Which pairs are left changes the work and never a result,
// and nothing is added in an order that depends on time: the same rows give the same bits.
//
// Rows are of `dim` columns; NB blocks of 16 columns hold them, with zeros behind. Triangles are lower ones, row by row.

#include <cuda_fp16.h>
#include <stdint.h>

#define FULL 0xffffffffu

extern __shared__ __align__(16) unsigned char shared_memory[];

static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
static __device__ __forceinline__ int triangle(int n) { return n * (n + 1) / 2; }

// ---------------------------------------------------------------------------------------------------- products

// d += A B in FP16 with FP32 sums: 16 rows, 8 columns, 16 products each.
static __device__ __forceinline__ void mma_half(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += A B in FP64: 16 rows, 8 columns, 8 products each. Lane 4 g + t has rows g and g + 8 of A (k = t and t + 4), column
// g of B, and columns 2 t and 2 t + 1 of d.
static __device__ __forceinline__ void mma_double(double (&d)[4], double a0, double a1, double a2, double a3, double b0,
                                                  double b1) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b0), "d"(b1));
#else
    const double a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                         : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
                         : "d"(a[half + 2 * k]), "d"(b[k]));
#endif
}

// ---------------------------------------------------------------------------------------------------- preparation

extern "C" __global__ void fill(float* values, int count, float value) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) values[n] = value;
}

// z = A (x - c) in FP16, scaled by 2^5, and for each row a bound on how far the FP16 product of it with any factor may be
// from the true one, as a share of the factor's norm. Rows beyond the range of FP16 get an infinite bound.
#define ROW_SCALE 32.f
#define ROUNDING (1.04f / 1024.f)

template <typename T>
static __device__ void whiten(const T* rows, int num_rows, int dim, int blocks16, const double* factor, const double* center,
                              __half* out, float* reach) {
    double* y = (double*)shared_memory;
    const int padded = blocks16 * 16;
    for (int n = blockIdx.x; n < num_rows; n += gridDim.x) {
        __syncthreads();
        for (int d = threadIdx.x; d < dim; d += blockDim.x) y[d] = (double)rows[(size_t)n * dim + d] - center[d];
        __syncthreads();
        float square = 0.f;
        bool beyond = false;
        for (int i = threadIdx.x; i < padded; i += blockDim.x) {
            double z = 0.0;
            if (i < dim)
                for (int j = 0; j <= i; j++) z = fma(factor[j * dim + i], y[j], z);
            const float scaled = (float)z * ROW_SCALE;
            if (!(fabsf(scaled) < 60000.f)) beyond = true;
            out[(size_t)n * padded + i] = __float2half_rn(beyond ? 0.f : scaled);
            square += (float)z * (float)z;
        }
        // One warp a row.
        for (int lane = 16; lane; lane >>= 1) square += __shfl_xor_sync(FULL, square, lane);
        beyond = __any_sync(FULL, beyond);
        if (threadIdx.x == 0) {
            const float underflow = 1.1f * sqrtf((float)dim) / (1 << 30);
            reach[n] = beyond ? infinity() : ROUNDING * sqrtf(square) + underflow;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32) whiten_f32(const float* rows, int num_rows, int dim, int blocks16,
        const double* factor, const double* center, __half* out, float* reach) {
    whiten(rows, num_rows, dim, blocks16, factor, center, out, reach);
}
extern "C" __global__ void __launch_bounds__(32) whiten_f64(const double* rows, int num_rows, int dim, int blocks16,
        const double* factor, const double* center, __half* out, float* reach) {
    whiten(rows, num_rows, dim, blocks16, factor, center, out, reach);
}

// 16-byte pieces of a cluster in the screen: its factor, where its products start, its constants.
static __host__ __device__ __forceinline__ int screen_pieces(int blocks16) {
    return blocks16 * (blocks16 + 1) / 2 * 32 + blocks16 * 4 + 1;
}

// What a lap needs of each cluster. `factors` are the triangles of M_k, `means` are in the units of the rows.
// For decide: M_k in the order of the products, and M_k m_k. For screen: M_k C in FP16, C being the inverse of the
// whitening factor, divided by a power of two; M_k (m_k - c); the constant; and a bound on the norm of |M_k C|.
extern "C" __global__ void __launch_bounds__(128) prepare(const double* factors, const double* means, const double* constants,
        const double* center, const double* color, int num_clusters, int dim, int blocks16, int in_quads,
        double2* decide_pack, double* decide_start, uint4* screen_pack) {
    const int k = blockIdx.x, tid = threadIdx.x, size = triangle(dim), padded = blocks16 * 16;
    double* m = (double*)shared_memory;
    float* product = (float*)(m + size);
    double* v = (double*)(product + ((size + 1) & ~1));
    double* u = v + padded;
    __shared__ float largest[128];
    for (int i = tid; i < size; i += 128) m[i] = factors[(size_t)k * size + i];
    __syncthreads();
    const int tiles = 2 * blocks16;
    double2* pack = decide_pack + (size_t)k * triangle(tiles) * 32;
    for (int i = tid; i < triangle(tiles) * 32; i += 128) {
        const int lane = i & 31, g = lane >> 2, t = lane & 3;
        int j = 0, tile = i >> 5;
        while (triangle(j + 1) <= tile) j++;
        const int s = tile - triangle(j), row = 8 * j + g, column = 8 * s + 2 * t;
        double2 value = make_double2(0.0, 0.0);
        if (row < dim && column <= row) value.x = m[triangle(row) + column];
        if (row < dim && column + 1 <= row) value.y = m[triangle(row) + column + 1];
        pack[i] = value;
    }
    for (int i = tid; i < padded; i += 128) {
        double from_zero = 0.0, from_center = 0.0;
        if (i < dim)
            for (int j = 0; j <= i; j++) {
                const double mean = means[(size_t)k * dim + j];
                from_zero = fma(m[triangle(i) + j], mean, from_zero);
                from_center = fma(m[triangle(i) + j], mean - center[j], from_center);
            }
        decide_start[(size_t)k * padded + i] = -from_zero;
        u[i] = from_center;
    }
    float most = 0.f;
    for (int i = tid; i < size; i += 128) {
        int row = (int)((sqrtf(8.f * i + 1.f) - 1.f) * 0.5f);
        while (triangle(row + 1) <= i) row++;
        while (triangle(row) > i) row--;
        const int column = i - triangle(row);
        double sum = 0.0;
        for (int l = column; l <= row; l++) sum = fma(m[triangle(row) + l], color[(size_t)l * dim + column], sum);
        product[i] = (float)sum;
        most = fmaxf(most, fabsf((float)sum));
    }
    largest[tid] = most;
    for (int half = 64; half; half >>= 1) {
        __syncthreads();
        if (tid < half) largest[tid] = fmaxf(largest[tid], largest[tid + half]);
    }
    __syncthreads();
    int exponent;
    frexpf(largest[0], &exponent);
    // The largest entry is between 256 and 512 then.
    const float unit = largest[0] > 0.f ? ldexpf(1.f, exponent - 9) : 1.f;
    // Four clusters side by side have their factors first, then their starts, then their constants.
    uint4* out = screen_pack + (size_t)(in_quads ? k / 4 * 4 : k) * screen_pieces(blocks16);
    const int factor_pieces = triangle(blocks16) * 32, of_quad = k & 3;
    if (in_quads) {
        // Tiles of 64 columns (16 of each cluster) by 16, in pieces of 8 columns by 16 bytes.
        __half* tiles16 = (__half*)out;
        for (int i = tid; i < triangle(blocks16) * 256; i += 128) {
            const int tile = i >> 8, column = (i >> 4) & 15, inner = i & 15;
            int p = 0;
            while (triangle(p + 1) <= tile) p++;
            const int b = tile - triangle(p), row = 16 * p + column, from = 16 * b + inner, n = 16 * of_quad + column;
            const float x = row < dim && from <= row ? product[triangle(row) + from] / unit : 0.f;
            tiles16[tile * 1024 + (n >> 3) * 128 + (inner >> 3) * 64 + (n & 7) * 8 + (inner & 7)] = __float2half_rn(x);
        }
    } else
    for (int i = tid; i < factor_pieces; i += 128) {
        const int lane = i & 31, g = lane >> 2, t = lane & 3, tile = i >> 5;
        int p = 0;
        while (triangle(p + 1) <= tile) p++;
        const int b = tile - triangle(p);
        auto pair = [&](int j, int half) -> uint32_t {
            const int row = 16 * p + 8 * j + g, column = 16 * b + 2 * t + 8 * half;
            const float x = row < dim && column <= row ? product[triangle(row) + column] / unit : 0.f;
            const float y = row < dim && column + 1 <= row ? product[triangle(row) + column + 1] / unit : 0.f;
            const __half2 both = __floats2half2_rn(x, y);
            return *(const uint32_t*)&both;
        };
        out[i] = make_uint4(pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1));
    }
    const float scale = unit / ROW_SCALE;
    float* start = (float*)(in_quads ? out + 4 * factor_pieces + of_quad * blocks16 * 4 : out + factor_pieces);
    for (int i = tid; i < padded; i += 128) start[i] = -(float)(u[i] / (double)scale);
    __syncthreads();
    double length = 0.0;
    if (tid == 0)
        for (int i = 0; i < dim; i++) length = fma(u[i], u[i], length);
    __syncthreads();
    // The largest eigenvalue of B = |P|^T |P| is at most max_i (B v)_i / v_i for any positive v; a few steps of the power
    // method make it tight.
    for (int i = tid; i < dim; i += 128) v[i] = 1.0;
    float bound = 0.f;
    for (int step = 0; step < 12; step++) {
        __syncthreads();
        for (int i = tid; i < dim; i += 128) {
            double sum = 0.0;
            for (int j = 0; j <= i; j++) sum += fabs((double)product[triangle(i) + j]) * v[j];
            u[i] = sum;
        }
        __syncthreads();
        float ratio = 0.f, tallest = 0.f;
        double mine[2];
        for (int j = tid, n = 0; j < dim; j += 128, n++) {
            double sum = 0.0;
            for (int i = j; i < dim; i++) sum += fabs((double)product[triangle(i) + j]) * u[i];
            mine[n & 1] = sum;
            ratio = fmaxf(ratio, (float)(sum / v[j]));
            tallest = fmaxf(tallest, (float)sum);
        }
        largest[tid] = tallest;
        for (int half = 64; half; half >>= 1) {
            __syncthreads();
            if (tid < half) largest[tid] = fmaxf(largest[tid], largest[tid + half]);
        }
        __syncthreads();
        const double tall = fmax((double)largest[0], 1e-300);
        __syncthreads();
        largest[tid] = ratio;
        for (int half = 64; half; half >>= 1) {
            __syncthreads();
            if (tid < half) largest[tid] = fmaxf(largest[tid], largest[tid + half]);
        }
        __syncthreads();
        bound = largest[0];
        for (int j = tid, n = 0; j < dim; j += 128, n++) v[j] = fmax(mine[n & 1] / tall, 1e-12);
    }
    if (tid == 0) {
        float* last = (float*)(in_quads ? out + 4 * (factor_pieces + blocks16 * 4) + of_quad
                                        : out + factor_pieces + blocks16 * 4);
        last[0] = (float)constants[k];
        last[1] = scale * scale;
        last[2] = 1.001f * sqrtf(bound);
        last[3] = (float)(sqrt(length) * 1e-6);
    }
}

// ---------------------------------------------------------------------------------------------------- screen

// Candidates that a row has room for. One that has more is weighed against all clusters.
#define ROOM 128

static __device__ __forceinline__ void copy16(void* to, const void* from) {
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
}

static __device__ __forceinline__ float approximate_root(float x) {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// v[4] summed over the 4 lanes of a quad; lane t keeps the sum of v[t].
static __device__ __forceinline__ float quad_sum(float v0, float v1, float v2, float v3, int t) {
    const bool odd = t & 1, high = t & 2;
    const float a = (odd ? v1 : v0) + __shfl_xor_sync(FULL, odd ? v0 : v1, 1);
    const float b = (odd ? v3 : v2) + __shfl_xor_sync(FULL, odd ? v2 : v3, 1);
    return (high ? b : a) + __shfl_xor_sync(FULL, high ? a : b, 2);
}

static __device__ __noinline__ int still_in(uint2* list, int count, float threshold) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        const uint2 entry = list[i];
        if (__uint_as_float(entry.y) >= threshold) list[kept++] = entry;
    }
    return kept;
}

// A warp has R tiles of 16 rows in registers; factors of GROUP clusters come to shared memory while those before are worked
// on. The lane that owns a row keeps the LT largest lower bounds of its weights; for L < LT the first are infinite.
template <int NB, int R, int WARPS, int GROUP, int LT>
static __device__ __forceinline__ void screen(const __half* rows, const float* reach, const uint4* pack, int num_rows,
        int num_clusters, int sparsity, float rounding, uint2* candidates, int* counts, float* thresholds) {
    constexpr int FACTOR = NB * (NB + 1) / 2 * 32, PIECES = FACTOR + NB * 4 + 1, OWN = R / 2, D = NB * 16;
    uint4* stage = (uint4*)shared_memory;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int base = (blockIdx.x * WARPS + warp) * (16 * R);
    uint32_t a[R][NB][4];
#pragma unroll
    for (int m = 0; m < R; m++)
#pragma unroll
        for (int s = 0; s < NB; s++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = base + m * 16 + g + (e & 1) * 8, column = s * 16 + 2 * t + (e >> 1) * 8;
                a[m][s][e] = row < num_rows ? *(const uint32_t*)(rows + (size_t)row * D + column) : 0u;
            }
    float best[OWN][LT], own_reach[OWN];
    int count[OWN], row_of[OWN];
#pragma unroll
    for (int o = 0; o < OWN; o++) {
        row_of[o] = base + (2 * o + (t >> 1)) * 16 + (t & 1) * 8 + g;
        own_reach[o] = row_of[o] < num_rows ? reach[row_of[o]] : 0.f;
        count[o] = 0;
#pragma unroll
        for (int i = 0; i < LT; i++) best[o][i] = row_of[o] < num_rows && i >= LT - sparsity ? -infinity() : infinity();
    }
    const int groups = (num_clusters + GROUP - 1) / GROUP;
    auto load = [&](int group) {
        const int first = group * GROUP, many = min(GROUP, num_clusters - first) * PIECES;
        uint4* to = stage + (group & 1) * GROUP * PIECES;
        const uint4* from = pack + (size_t)first * PIECES;
        for (int i = threadIdx.x; i < many; i += WARPS * 32) copy16(to + i, from + i);
        asm volatile("cp.async.commit_group;");
    };
    load(0);
    for (int group = 0; group < groups; group++) {
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        if (group + 1 < groups) load(group + 1);
        const uint4* b = stage + (group & 1) * GROUP * PIECES;
        const int many = min(GROUP, num_clusters - group * GROUP);
#pragma unroll 1
        for (int c = 0; c < many; c++, b += PIECES) {
            const float2* start = (const float2*)(b + FACTOR);
            float square[R][2];
#pragma unroll
            for (int m = 0; m < R; m++) square[m][0] = square[m][1] = 0.f;
#pragma unroll
            for (int p = 0; p < NB; p++) {
                float acc[2][R][4];
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const float2 from = start[p * 8 + j * 4 + t];
#pragma unroll
                    for (int m = 0; m < R; m++) {
                        acc[j][m][0] = acc[j][m][2] = from.x;
                        acc[j][m][1] = acc[j][m][3] = from.y;
                    }
                }
#pragma unroll
                for (int i = 0; i <= p; i++) {
                    const uint4 factor = b[(p * (p + 1) / 2 + i) * 32 + lane];
#pragma unroll
                    for (int m = 0; m < R; m++) {
                        mma_half(acc[0][m], a[m][i], factor.x, factor.y);
                        mma_half(acc[1][m], a[m][i], factor.z, factor.w);
                    }
                }
#pragma unroll
                for (int j = 0; j < 2; j++)
#pragma unroll
                    for (int m = 0; m < R; m++) {
                        square[m][0] = fmaf(acc[j][m][0], acc[j][m][0], square[m][0]);
                        square[m][0] = fmaf(acc[j][m][1], acc[j][m][1], square[m][0]);
                        square[m][1] = fmaf(acc[j][m][2], acc[j][m][2], square[m][1]);
                        square[m][1] = fmaf(acc[j][m][3], acc[j][m][3], square[m][1]);
                    }
            }
            const float4 of = *(const float4*)(b + FACTOR + NB * 4);
            const uint32_t k = group * GROUP + c;
#pragma unroll
            for (int o = 0; o < OWN; o++) {
                const float q = of.y * quad_sum(square[2 * o][0], square[2 * o][1], square[2 * o + 1][0],
                                                square[2 * o + 1][1], t);
                // ||y~ - y|| <= off, so that the weight is off by at most off (||y~|| + off / 2), and rounding of the sum.
                const float w = fmaf(-0.5f, q, of.x), off = fmaf(of.z, own_reach[o], of.w);
                const float error = fmaf(off, fmaf(0.5f, off, approximate_root(q)), rounding * (q + fabsf(of.x)));
                const float high = w + error;
                // A number that is none is a candidate too.
                if (!(high < best[o][LT - 1])) {
                    float low = w - error;
                    low = low == low ? low : -infinity();
#pragma unroll
                    for (int i = 0; i < LT; i++) {
                        const float more = fmaxf(best[o][i], low);
                        low = fminf(best[o][i], low);
                        best[o][i] = more;
                    }
                    if (row_of[o] < num_rows) {
                        uint2* list = candidates + (size_t)row_of[o] * ROOM;
                        if (count[o] == ROOM) count[o] = still_in(list, ROOM, best[o][LT - 1]);
                        if (count[o] < ROOM) list[count[o]] = make_uint2(k, __float_as_uint(high == high ? high : infinity()));
                        if (count[o] <= ROOM) count[o]++;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int o = 0; o < OWN; o++)
        if (row_of[o] < num_rows) {
            counts[row_of[o]] = count[o];
            thresholds[row_of[o]] = best[o][LT - 1];
        }
}

#define SCREEN(NB, R, WARPS, GROUP, LT)                                                                                      \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) screen_##NB##_##LT(const __half* rows, const float* reach,     \
            const uint4* pack, int num_rows, int num_clusters, int sparsity, float rounding, uint2* candidates, int* counts,   \
            float* thresholds) {                                                                                               \
        screen<NB, R, WARPS, GROUP, LT>(rows, reach, pack, num_rows, num_clusters, sparsity, rounding, candidates, counts,     \
                                        thresholds);                                                                           \
    }

// The sizes are those of `SCREENS` in src/mixture.rs.
SCREEN(1, 4, 12, 8, 8)
SCREEN(2, 4, 12, 8, 8)
SCREEN(4, 4, 12, 4, 8)
SCREEN(8, 2, 12, 1, 8)

// ---------------------------------------------------------------------------------------------------- screen on Hopper

// The same with the products of a warpgroup, for GPUs of compute capability 9.0: a warpgroup has 128 rows in registers, and
// four clusters side by side give products of 64 columns. Factors come by bulk copies, several stages ahead.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <int ADD>
static __device__ __forceinline__ void wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(ADD));
}

// Where a tile is: pieces of 8 columns by 16 bytes, 128 bytes from one to the next along the products, 256 along columns.
static __device__ __forceinline__ uint64_t tile_at(uint32_t address) {
    return (uint64_t)((address & 0x3FFFF) >> 4) | ((uint64_t)(128 >> 4) << 16) | ((uint64_t)(256 >> 4) << 32);
}

static __device__ __forceinline__ void wait_for(uint32_t barrier, int parity) {
    asm volatile("{\n.reg .pred P1;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra WAIT;\nDONE:\n}"
                 ::"r"(barrier), "r"(parity) : "memory");
}

static __device__ __forceinline__ void copy_stage(uint32_t to, const void* from, int bytes, uint32_t barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

template <int NB, int GROUPS, int QUADS, int STAGES, int LT, bool MEANS>
static __device__ __forceinline__ void screen_quads(const __half* rows, const float* reach, const char* pack, int num_rows,
        int num_clusters, int sparsity, float rounding, uint2* candidates, int* counts, float* thresholds) {
    constexpr int TILES = NB * (NB + 1) / 2, QUAD = TILES * 2048 + 4 * NB * 64 + 64, STAGE = QUADS * QUAD, D = NB * 16;
    __shared__ __align__(8) uint64_t full[STAGES], empty[STAGES];
    const int group = threadIdx.x >> 7, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int base = (blockIdx.x * GROUPS + group) * 128;
    const uint32_t stage0 = (uint32_t)__cvta_generic_to_shared(shared_memory);
    const uint32_t full0 = (uint32_t)__cvta_generic_to_shared(full), empty0 = (uint32_t)__cvta_generic_to_shared(empty);
    const int stages = (num_clusters + 4 * QUADS - 1) / (4 * QUADS);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full0 + 8 * i), "r"(1));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty0 + 8 * i), "r"(GROUPS * 4));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES && i < stages; i++)
            copy_stage(stage0 + i * STAGE, pack + (size_t)i * STAGE, STAGE, full0 + 8 * i);
    uint32_t a[2][NB][4];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int s = 0; s < NB; s++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = base + m * 64 + warp * 16 + g + (e & 1) * 8, column = s * 16 + 2 * t + (e >> 1) * 8;
                a[m][s][e] = row < num_rows ? *(const uint32_t*)(rows + (size_t)row * D + column) : 0u;
            }
    const int own = base + (t >> 1) * 64 + warp * 16 + (t & 1) * 8 + g;
    const float own_reach = own < num_rows ? reach[own] : 0.f;
    uint2* list = candidates + (size_t)min(own, num_rows - 1) * ROOM;
    float best[LT];
    int count = 0;
#pragma unroll
    for (int i = 0; i < LT; i++) best[i] = own < num_rows && i >= LT - sparsity ? -infinity() : infinity();
    float acc[2][32];
    for (int stage = 0; stage < stages; stage++) {
        // The place that was left two stages ago is filled again.
        if (threadIdx.x == 0 && stage >= 2 && stage - 2 + STAGES < stages) {
            const int next = stage - 2 + STAGES, at = (stage - 2) % STAGES;
            wait_for(empty0 + 8 * at, ((stage - 2) / STAGES) & 1);
            copy_stage(stage0 + at * STAGE, pack + (size_t)next * STAGE, STAGE, full0 + 8 * at);
        }
        __syncwarp();
        const int at = stage % STAGES;
        wait_for(full0 + 8 * at, (stage / STAGES) & 1);
#pragma unroll 1
        for (int q = 0; q < QUADS; q++) {
            const uint32_t tiles = stage0 + at * STAGE + q * QUAD;
            const float* start = (const float*)(shared_memory + at * STAGE + q * QUAD + TILES * 2048);
            const float4* constants = (const float4*)(start + 4 * D);
            float square[4][2][2] = {};
#pragma unroll
            for (int b = NB - 1; b >= 0; b--) {
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int s = 0; s <= b; s++)
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        const uint64_t tile = tile_at(tiles + (b * (b + 1) / 2 + s) * 2048);
                        if (s == 0) wgmma<0>(acc[m], a[m][s], tile);
                        else wgmma<1>(acc[m], a[m][s], tile);
                    }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                // Products must start from nothing, or they would wait for each other: where they start is added here.
#pragma unroll
                for (int c = 0; c < 4; c++)
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        const float2 from =
                            MEANS ? *(const float2*)(start + c * D + b * 16 + j * 8 + 2 * t) : make_float2(0.f, 0.f);
#pragma unroll
                        for (int m = 0; m < 2; m++)
#pragma unroll
                            for (int e = 0; e < 4; e++) {
                                float v = acc[m][c * 8 + j * 4 + e];
                                if (MEANS) v += e & 1 ? from.y : from.x;
                                square[c][m][e >> 1] = fmaf(v, v, square[c][m][e >> 1]);
                            }
                    }
            }
            float high[4], low[4];
            bool any = false;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float4 of = constants[c];
                const float form = of.y * quad_sum(square[c][0][0], square[c][0][1], square[c][1][0], square[c][1][1], t);
                const float w = fmaf(-0.5f, form, of.x), off = fmaf(of.z, own_reach, of.w);
                const float error = fmaf(off, fmaf(0.5f, off, approximate_root(form)), rounding * (form + fabsf(of.x)));
                high[c] = w + error, low[c] = w - error;
                any |= !(high[c] < best[LT - 1]);
            }
            if (any) {
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const int k = (stage * QUADS + q) * 4 + c;
                    if (!(high[c] < best[LT - 1]) && k < num_clusters && own < num_rows) {
                        float lower = low[c] == low[c] ? low[c] : -infinity();
#pragma unroll
                        for (int i = 0; i < LT; i++) {
                            const float more = fmaxf(best[i], lower);
                            lower = fminf(best[i], lower);
                            best[i] = more;
                        }
                        if (count == ROOM) count = still_in(list, ROOM, best[LT - 1]);
                        if (count < ROOM) list[count] = make_uint2(k, __float_as_uint(high[c] == high[c] ? high[c] : infinity()));
                        if (count <= ROOM) count++;
                    }
                }
            }
        }
        __syncwarp();
        if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty0 + 8 * at) : "memory");
    }
    if (own < num_rows) {
        counts[own] = count;
        thresholds[own] = best[LT - 1];
    }
}
#define SCREEN_QUADS_BODY(NB, GROUPS, QUADS, STAGES, MEANS)                                                                  \
    screen_quads<NB, GROUPS, QUADS, STAGES, 8, MEANS>(rows, reach, pack, num_rows, num_clusters, sparsity, rounding,           \
                                                      candidates, counts, thresholds);
#else
#define SCREEN_QUADS_BODY(NB, GROUPS, QUADS, STAGES, MEANS)
#endif

#define SCREEN_QUADS(NAME, NB, GROUPS, QUADS, STAGES, MEANS)                                                                 \
    extern "C" __global__ void __launch_bounds__(GROUPS * 128, 1) NAME(const __half* rows, const float* reach,                 \
            const char* pack, int num_rows, int num_clusters, int sparsity, float rounding, uint2* candidates, int* counts,    \
            float* thresholds) {                                                                                               \
        SCREEN_QUADS_BODY(NB, GROUPS, QUADS, STAGES, MEANS)                                                                    \
    }

// The sizes are those of `QUAD_SCREENS` in src/mixture.rs; where all means are zero nothing has to be added.
SCREEN_QUADS(screen_quads_4, 4, 4, 2, 4, true)
SCREEN_QUADS(screen_quads_4_about_zero, 4, 4, 2, 4, false)
SCREEN_QUADS(screen_quads_8, 8, 3, 1, 2, true)
SCREEN_QUADS(screen_quads_8_about_zero, 8, 3, 1, 2, false)

// ---------------------------------------------------------------------------------------------------- pairs

// How many clusters a row is weighed against: the candidates above its final threshold, which are put first, or all. A
// warp a row.
extern "C" __global__ void keep_candidates(uint2* candidates, const int* counts, const float* thresholds, int num_rows,
        int num_clusters, uint32_t* kept) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= num_rows) return;
    const int count = counts[row];
    if (count > ROOM) {
        if (lane == 0) kept[row] = num_clusters;
        return;
    }
    uint2* list = candidates + (size_t)row * ROOM;
    const float threshold = thresholds[row];
    int many = 0;
    for (int i = 0; i < count; i += 32) {
        const uint2 entry = i + lane < count ? list[i + lane] : make_uint2(0u, 0u);
        const bool keep = i + lane < count && __uint_as_float(entry.y) >= threshold;
        const unsigned all = __ballot_sync(FULL, keep);
        __syncwarp();
        if (keep) list[many + __popc(all & ((1u << lane) - 1))] = entry;
        many += __popc(all);
        __syncwarp();
    }
    if (lane == 0) kept[row] = many;
}

extern "C" __global__ void fill_u32(uint32_t* values, int count, uint32_t value) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) values[n] = value;
}

// Pairs of row and cluster in the order of rows; without candidates a row has all clusters. A warp a row.
extern "C" __global__ void make_pairs(const uint2* candidates, const int* counts, const uint32_t* start, int num_rows,
        int num_clusters, uint32_t* cluster_of, uint32_t* row_of) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= num_rows) return;
    const uint32_t first = start[row], many = start[row + 1] - first;
    const bool all = !candidates || counts[row] > ROOM;
    for (uint32_t i = lane; i < many; i += 32) {
        cluster_of[first + i] = all ? i : candidates[(size_t)row * ROOM + i].x;
        row_of[first + i] = row;
    }
}

// Sums of all numbers before each, in three steps: blocks of 4096, the sums of blocks, and both together. `sums` has one
// number more than there are, the sum of all.
extern "C" __global__ void __launch_bounds__(1024) sum_blocks(const uint32_t* values, int count, uint32_t* sums,
        uint32_t* of_blocks) {
    __shared__ uint32_t of_warps[32];
    const int first = blockIdx.x * 4096 + threadIdx.x * 4, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    uint32_t mine[4], sum = 0;
    for (int i = 0; i < 4; i++) {
        mine[i] = sum;
        sum += first + i < count ? values[first + i] : 0u;
    }
    uint32_t up = sum;
    for (int step = 1; step < 32; step <<= 1) {
        const uint32_t other = __shfl_up_sync(FULL, up, step);
        if (lane >= step) up += other;
    }
    if (lane == 31) of_warps[warp] = up;
    __syncthreads();
    if (warp == 0) {
        uint32_t all = of_warps[lane];
        for (int step = 1; step < 32; step <<= 1) {
            const uint32_t other = __shfl_up_sync(FULL, all, step);
            if (lane >= step) all += other;
        }
        of_warps[lane] = all;
    }
    __syncthreads();
    const uint32_t before = (warp ? of_warps[warp - 1] : 0u) + up - sum;
    for (int i = 0; i < 4; i++)
        if (first + i < count) sums[first + i] = before + mine[i];
    if (threadIdx.x == 1023) of_blocks[blockIdx.x] = of_warps[31];
}

extern "C" __global__ void __launch_bounds__(1024) sum_of_blocks(uint32_t* of_blocks, int num_blocks, uint32_t* sums, int count) {
    __shared__ uint32_t part[1024];
    uint32_t carry = 0;
    for (int first = 0; first < num_blocks; first += 1024) {
        const int i = first + threadIdx.x;
        const uint32_t mine = i < num_blocks ? of_blocks[i] : 0u;
        part[threadIdx.x] = mine;
        for (int step = 1; step < 1024; step <<= 1) {
            __syncthreads();
            const uint32_t other = threadIdx.x >= step ? part[threadIdx.x - step] : 0u;
            __syncthreads();
            part[threadIdx.x] += other;
        }
        __syncthreads();
        if (i < num_blocks) of_blocks[i] = carry + part[threadIdx.x] - mine;
        carry += part[1023];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[count] = carry;
}

extern "C" __global__ void __launch_bounds__(1024) add_blocks(uint32_t* sums, int count, const uint32_t* of_blocks) {
    const int first = blockIdx.x * 4096 + threadIdx.x * 4;
    for (int i = 0; i < 4; i++)
        if (first + i < count) sums[first + i] += of_blocks[blockIdx.x];
}

// Pairs by cluster, in the order of rows within one: a stable counting sort. A warp has a chunk of pairs.
#define CHUNK 8192

extern "C" __global__ void count_chunks(const uint32_t* cluster_of, int num_pairs, int num_chunks, int num_clusters,
        uint32_t* table) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, chunk = blockIdx.x * (blockDim.x >> 5) + warp;
    uint32_t* counts = (uint32_t*)shared_memory + (size_t)warp * num_clusters;
    if (chunk >= num_chunks) return;
    for (int k = lane; k < num_clusters; k += 32) counts[k] = 0;
    __syncwarp();
    const int last = min(num_pairs, (chunk + 1) * CHUNK);
    for (int i = chunk * CHUNK + lane; i < last; i += 32) atomicAdd(counts + cluster_of[i], 1u);
    __syncwarp();
    for (int k = lane; k < num_clusters; k += 32) table[(size_t)k * num_chunks + chunk] = counts[k];
}

extern "C" __global__ void sort_chunks(const uint32_t* cluster_of, const uint32_t* row_of, int num_pairs, int num_chunks,
        int num_clusters, const uint32_t* table, uint2* sorted) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, chunk = blockIdx.x * (blockDim.x >> 5) + warp;
    uint32_t* next = (uint32_t*)shared_memory + (size_t)warp * num_clusters;
    if (chunk >= num_chunks) return;
    for (int k = lane; k < num_clusters; k += 32) next[k] = table[(size_t)k * num_chunks + chunk];
    __syncwarp();
    const int last = min(num_pairs, (chunk + 1) * CHUNK);
    for (int first = chunk * CHUNK; first < last; first += 32) {
        const int i = first + lane;
        const bool on = i < last;
        const unsigned mask = __ballot_sync(FULL, on);
        if (on) {
            const uint32_t k = cluster_of[i];
            const unsigned alike = __match_any_sync(mask, k);
            const uint32_t at = next[k];
            __syncwarp(mask);
            if ((alike >> lane) == 1u) next[k] = at + __popc(alike);
            sorted[at + __popc(alike & ((1u << lane) - 1))] = make_uint2(row_of[i], (uint32_t)i);
        }
        __syncwarp();
    }
}

// Where the pairs of each cluster start, and how many segments of `size` they are: one number a cluster, to be summed.
extern "C" __global__ void count_segments(const uint32_t* table, int num_chunks, int num_clusters, int num_pairs, int size,
        uint32_t* start, uint32_t* segments) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k > num_clusters) return;
    const uint32_t first = k < num_clusters ? table[(size_t)k * num_chunks] : (uint32_t)num_pairs;
    start[k] = first;
    if (k == num_clusters) return;
    const uint32_t last = k + 1 < num_clusters ? table[(size_t)(k + 1) * num_chunks] : (uint32_t)num_pairs;
    segments[k] = (last - first + size - 1) / size;
}

// The cluster that a segment belongs to: before[k] <= segment < before[k + 1].
static __device__ __forceinline__ int cluster_of_segment(const uint32_t* before, int num_clusters, uint32_t segment) {
    int low = 0, high = num_clusters;
    while (high - low > 1) {
        const int middle = (low + high) >> 1;
        if (before[middle] <= segment) low = middle;
        else high = middle;
    }
    return low;
}

// ---------------------------------------------------------------------------------------------------- decision

// Pairs of a segment. Segments of decisions and of statistics are the same.
#define SEGMENT 1024

// The weights of pairs in FP64: w = constant - ||M x - M m||^2 / 2, written where the pair is in the order of rows.
template <typename T, int NB>
static __device__ __forceinline__ void decide(const T* rows, int dim, const double2* pack, const double* from,
        const double* constants, const uint2* sorted, const uint32_t* start, const uint32_t* before, int num_clusters,
        double* weights) {
    constexpr int TILES = 2 * NB, SIZE = TILES * (TILES + 1) / 2 * 32;
    double2* shared_pack = (double2*)shared_memory;
    double* begin = (double*)(shared_pack + SIZE);
    const uint32_t segment = blockIdx.x;
    if (segment >= before[num_clusters]) return;
    const int k = cluster_of_segment(before, num_clusters, segment);
    const uint32_t first = start[k] + (segment - before[k]) * SEGMENT, last = min(start[k + 1], first + SEGMENT);
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x) shared_pack[i] = pack[(size_t)k * SIZE + i];
    for (int i = threadIdx.x; i < NB * 16; i += blockDim.x) begin[i] = from[(size_t)k * NB * 16 + i];
    __syncthreads();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const double constant = constants[k];
    for (uint32_t base = first + warp * 16; base < last; base += (blockDim.x >> 5) * 16) {
        const uint2 one = sorted[min(base + g, last - 1)], other = sorted[min(base + g + 8, last - 1)];
        const T *x = rows + (size_t)one.x * dim, *y = rows + (size_t)other.x * dim;
        auto value = [&](const T* row, int column) { return column < dim ? (double)__ldg(row + column) : 0.0; };
        double a[NB <= 4 ? TILES : 1][4];
        if (NB <= 4) {
#pragma unroll
            for (int s = 0; s < TILES; s++) {
                const int column = 8 * s + 2 * t;
                a[NB <= 4 ? s : 0][0] = value(x, column), a[NB <= 4 ? s : 0][1] = value(y, column);
                a[NB <= 4 ? s : 0][2] = value(x, column + 1), a[NB <= 4 ? s : 0][3] = value(y, column + 1);
            }
        }
        double q0 = 0.0, q1 = 0.0;
#pragma unroll(NB <= 4 ? TILES : 1)
        for (int j = 0; j < TILES; j++) {
            const double b0 = begin[8 * j + 2 * t], b1 = begin[8 * j + 2 * t + 1];
            double d[4] = {b0, b1, b0, b1};
#pragma unroll(NB <= 4 ? TILES : 2)
            for (int s = 0; s < TILES; s++) {
                if (s > j) break;
                const double2 m = shared_pack[(j * (j + 1) / 2 + s) * 32 + lane];
                if (NB <= 4) {
                    const int at = NB <= 4 ? s : 0;
                    mma_double(d, a[at][0], a[at][1], a[at][2], a[at][3], m.x, m.y);
                } else {
                    const int column = 8 * s + 2 * t;
                    mma_double(d, value(x, column), value(y, column), value(x, column + 1), value(y, column + 1), m.x, m.y);
                }
            }
            q0 = fma(d[0], d[0], q0), q0 = fma(d[1], d[1], q0);
            q1 = fma(d[2], d[2], q1), q1 = fma(d[3], d[3], q1);
        }
        q0 += __shfl_xor_sync(FULL, q0, 1), q0 += __shfl_xor_sync(FULL, q0, 2);
        q1 += __shfl_xor_sync(FULL, q1, 1), q1 += __shfl_xor_sync(FULL, q1, 2);
        if (t == 0 && base + g < last) weights[one.y] = constant - 0.5 * q0;
        if (t == 1 && base + g + 8 < last) weights[other.y] = constant - 0.5 * q1;
    }
}

#define DECIDE(NAME, T, NB)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128) NAME(const T* rows, int dim, const double2* pack, const double* from,    \
            const double* constants, const uint2* sorted, const uint32_t* start, const uint32_t* before, int num_clusters,     \
            double* weights) {                                                                                                 \
        decide<T, NB>(rows, dim, pack, from, constants, sorted, start, before, num_clusters, weights);                         \
    }

DECIDE(decide_f32_1, float, 1)
DECIDE(decide_f32_2, float, 2)
DECIDE(decide_f32_4, float, 4)
DECIDE(decide_f32_8, float, 8)
DECIDE(decide_f64_1, double, 1)
DECIDE(decide_f64_2, double, 2)
DECIDE(decide_f64_4, double, 4)
DECIDE(decide_f64_8, double, 8)

// Numbers as whole numbers of the same order.
static __device__ __forceinline__ uint64_t ordered(double w) {
    const uint64_t bits = (uint64_t)__double_as_longlong(w);
    return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
}

// The L largest weights of a row (of equal ones those of the first clusters) as responsibilities in the place of the
// weights, a number below zero for the others; their entropy; and the first row with a weight that is no number. By a warp.
static __device__ double choose_among_many(double* w, int many, int sparsity, uint32_t row, uint32_t* bad_row, int lane) {
    bool bad = false;
    double top = -1.0 / 0.0;
    for (int i = lane; i < many; i += 32) {
        bad |= w[i] != w[i];
        top = fmax(top, w[i]);
    }
    for (int step = 16; step; step >>= 1) top = fmax(top, __shfl_xor_sync(FULL, top, step));
    if (__any_sync(FULL, bad) || top == -1.0 / 0.0) {
        if (lane == 0) atomicMin(bad_row, row);
    }
    // The least that is in, as an ordered number, and how many equal to it are.
    uint64_t least = 0;
    int ties = many;
    if (many > sparsity && many <= 32) {
        // Few enough to compare all: the one that L - 1 are before is the last that is in.
        const uint64_t mine = lane < many ? ordered(w[lane]) : 0ull;
        int ahead = 0, same = 0;
        for (int i = 0; i < many; i++) {
            const uint64_t other = __shfl_sync(FULL, mine, i);
            ahead += other > mine;
            same += other == mine && i < lane;
        }
        const bool is_last = lane < many && ahead + same == sparsity - 1;
        const int who = __ffs(__ballot_sync(FULL, is_last)) - 1;
        least = __shfl_sync(FULL, mine, who);
        ties = __shfl_sync(FULL, same, who) + 1;
    } else if (many > sparsity) {
        uint64_t low = 0, high = ordered(top);
        // The largest number that at least `sparsity` weights reach.
        while (low < high) {
            const uint64_t middle = low + (high - low) / 2 + ((high - low) & 1);
            int reached = 0;
            for (int i = lane; i < many; i += 32) reached += ordered(w[i]) >= middle;
            for (int step = 16; step; step >>= 1) reached += __shfl_xor_sync(FULL, reached, step);
            if (reached >= sparsity) low = middle;
            else high = middle - 1;
            if (reached == sparsity) break;
        }
        least = low;
        int above = 0;
        for (int i = lane; i < many; i += 32) above += ordered(w[i]) > least;
        for (int step = 16; step; step >>= 1) above += __shfl_xor_sync(FULL, above, step);
        ties = above >= sparsity ? 0 : sparsity - above;
        // Where exactly L reach it, all of them are in.
        int reached = 0;
        for (int i = lane; i < many; i += 32) reached += ordered(w[i]) >= least;
        for (int step = 16; step; step >>= 1) reached += __shfl_xor_sync(FULL, reached, step);
        if (reached == sparsity) ties = many;
    }
    double sum = 0.0, weighted = 0.0;
    int seen = 0;
    for (int first = 0; first < many; first += 32) {
        const int i = first + lane;
        const uint64_t key = i < many ? ordered(w[i]) : 0ull;
        const bool tie = i < many && key == least;
        const unsigned all = __ballot_sync(FULL, tie);
        const bool in = i < many && (key > least || (tie && seen + __popc(all & ((1u << lane) - 1)) < ties));
        seen += __popc(all);
        const double away = in ? w[i] - top : 0.0, e = in ? exp(away) : 0.0;
        if (i < many) w[i] = in ? e : -1.0;
        sum += e;
        weighted += e * away;
    }
    for (int step = 16; step; step >>= 1) {
        sum += __shfl_xor_sync(FULL, sum, step);
        weighted += __shfl_xor_sync(FULL, weighted, step);
    }
    for (int i = lane; i < many; i += 32) w[i] /= sum;
    return log(sum) - weighted / sum;
}

// The same for two rows at once, each of at most 16 weights, by the halves of a warp.
static __device__ double choose_among_few(double* w, int many, int sparsity, uint32_t row, uint32_t* bad_row, int lane) {
    const double none = -1.0 / 0.0, mine = lane < many ? w[lane] : none;
    double top = mine;
    for (int step = 8; step; step >>= 1) top = fmax(top, __shfl_xor_sync(FULL, top, step, 16));
    if (lane < many && (mine != mine || top == none)) atomicMin(bad_row, row);
    const uint64_t key = lane < many ? ordered(mine) : 0ull;
    int before = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const uint64_t other = __shfl_sync(FULL, key, i, 16);
        before += i < many && (other > key || (other == key && i < lane));
    }
    const bool in = lane < many && before < sparsity;
    const double away = in ? mine - top : 0.0, e = in ? exp(away) : 0.0;
    double sum = e, weighted = e * away;
    for (int step = 8; step; step >>= 1) {
        sum += __shfl_xor_sync(FULL, sum, step, 16);
        weighted += __shfl_xor_sync(FULL, weighted, step, 16);
    }
    if (lane < many) w[lane] = (in ? e : -1.0) / sum;
    return log(sum) - weighted / sum;
}

// Responsibilities of all rows, and the entropy of each block's rows times their weights. A warp has two rows, in whose lists
// clusters ascend.
extern "C" __global__ void __launch_bounds__(256) choose(double* values, const uint32_t* start, int num_rows, int sparsity,
        const double* row_weights, int first_row, double* entropies, uint32_t* bad_row) {
    __shared__ double of_rows[16];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, half = lane >> 4;
    const int pair = blockIdx.x * 16 + warp * 2, row = pair + half;
    const uint32_t from = row < num_rows ? start[row] : 0u;
    const int many = row < num_rows ? (int)(start[row + 1] - from) : 0;
    double entropy = 0.0;
    if (__all_sync(FULL, many <= 16)) {
        entropy = choose_among_few(values + from, many, sparsity, (uint32_t)(first_row + row), bad_row, lane & 15);
    } else {
        for (int i = 0; i < 2 && pair + i < num_rows; i++) {
            const uint32_t at = start[pair + i];
            const double of_row = choose_among_many(values + at, (int)(start[pair + i + 1] - at), sparsity,
                                                    (uint32_t)(first_row + pair + i), bad_row, lane);
            if (i == half) entropy = of_row;
        }
    }
    if ((lane & 15) == 0) of_rows[2 * warp + half] = row < num_rows ? entropy * (row_weights ? row_weights[row] : 1.0) : 0.0;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (int i = 0; i < 16; i++) sum += of_rows[i];
        entropies[blockIdx.x] = sum;
    }
}

// Add the entropies of blocks to their sum, in an order that does not depend on time.
extern "C" __global__ void __launch_bounds__(1024) sum_entropies(const double* entropies, int count, double* total) {
    __shared__ double part[1024];
    double sum = 0.0;
    for (int i = threadIdx.x; i < count; i += 1024) sum += entropies[i];
    part[threadIdx.x] = sum;
    for (int half = 512; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *total += part[0];
}

// The clusters that each row keeps and their responsibilities, L of each in the order of clusters. A warp a row.
extern "C" __global__ void __launch_bounds__(256) take_kept(const double* values, const uint32_t* cluster_of,
        const uint32_t* start, int num_rows, int sparsity, uint32_t* index, double* share) {
    const int lane = threadIdx.x & 31, row = blockIdx.x * 8 + (threadIdx.x >> 5);
    if (row >= num_rows) return;
    const uint32_t from = start[row], to = start[row + 1];
    int seen = 0;
    for (uint32_t first = from; first < to; first += 32) {
        const uint32_t i = first + lane;
        const double r = i < to ? values[i] : -1.0;
        const unsigned all = __ballot_sync(FULL, r >= 0.0);
        const int at = seen + __popc(all & ((1u << lane) - 1));
        if (r >= 0.0 && at < sparsity) {
            index[(size_t)row * sparsity + at] = cluster_of[i];
            share[(size_t)row * sparsity + at] = r;
        }
        seen += __popc(all);
    }
}

// ---------------------------------------------------------------------------------------------------- scores

// log sum_k p_k(x) of rows whose pairs are with all clusters, from weights -q/2 that have no constant: log p_k is
// constant_k - power_k log(1 + rate_k q), or where there are no rates constant_k - q/2; where there are no constants either,
// the weights are log p_k already. A warp a row.
extern "C" __global__ void __launch_bounds__(256) log_sums(double* values, int num_rows, int num_clusters,
        const double* constants, const double* powers, const double* rates, double* out) {
    const int lane = threadIdx.x & 31, row = blockIdx.x * 8 + (threadIdx.x >> 5);
    if (row >= num_rows) return;
    double* w = values + (size_t)row * num_clusters;
    double top = -1.0 / 0.0;
    bool bad = false;
    for (int k = lane; k < num_clusters; k += 32) {
        double log_p = w[k];
        if (rates) log_p = constants[k] - powers[k] * log1p(-2.0 * rates[k] * log_p);
        else if (constants) log_p += constants[k];
        w[k] = log_p;
        bad |= log_p != log_p;
        top = fmax(top, log_p);
    }
    for (int step = 16; step; step >>= 1) top = fmax(top, __shfl_xor_sync(FULL, top, step));
    double sum = 0.0;
    for (int k = lane; k < num_clusters; k += 32) sum += exp(w[k] - top);
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(FULL, sum, step);
    bad = __any_sync(FULL, bad);
    // A row that is nowhere has no density; one with a weight that is no number has none that is a number.
    if (lane == 0) out[row] = bad ? 0.0 / 0.0 : top == -1.0 / 0.0 ? top : top + log(sum);
}

// values[n K + k] = constant_k - power_k sum_d log(1 + rate_kd (x_nd - m_kd)^2) of all rows and clusters; means and rates are
// column by column. A block has 8 rows, lanes are clusters.
#define ROWS_TOGETHER 8

template <typename T>
static __device__ __forceinline__ void log_columns(const T* rows, int num_rows, int dim, int num_clusters,
        const double* means, const double* rates, const double* constants, const double* powers, double* values) {
    const int first = blockIdx.x * ROWS_TOGETHER;
    for (int k = threadIdx.x; k < num_clusters; k += blockDim.x) {
        double product[ROWS_TOGETHER], sum[ROWS_TOGETHER];
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) product[i] = 1.0, sum[i] = 0.0;
        for (int d = 0; d < dim; d++) {
            const double m = means[(size_t)d * num_clusters + k], rate = rates[(size_t)d * num_clusters + k];
#pragma unroll
            for (int i = 0; i < ROWS_TOGETHER; i++) {
                const double y = (double)__ldg(rows + (size_t)min(first + i, num_rows - 1) * dim + d) - m;
                product[i] *= fma(rate * y, y, 1.0);
                // One logarithm for many factors, which are 1 at least.
                if (product[i] > 1e150) {
                    sum[i] += log(product[i]);
                    product[i] = 1.0;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++)
            if (first + i < num_rows)
                values[(size_t)(first + i) * num_clusters + k] = constants[k] - powers[k] * (sum[i] + log(product[i]));
    }
}

extern "C" __global__ void __launch_bounds__(128) log_columns_f32(const float* rows, int num_rows, int dim, int num_clusters,
        const double* means, const double* rates, const double* constants, const double* powers, double* values) {
    log_columns(rows, num_rows, dim, num_clusters, means, rates, constants, powers, values);
}
extern "C" __global__ void __launch_bounds__(128) log_columns_f64(const double* rows, int num_rows, int dim, int num_clusters,
        const double* means, const double* rates, const double* constants, const double* powers, double* values) {
    log_columns(rows, num_rows, dim, num_clusters, means, rates, constants, powers, values);
}

// ---------------------------------------------------------------------------------------------------- statistics

// The pairs of a segment whose share is above `negligible`, in order: their rows, and their shares times the weights of
// the rows. All 256 threads of a block; returns how many there are.
static __device__ int pairs_that_count(const uint2* sorted, const double* values, const double* row_weights,
        double negligible, uint32_t first, uint32_t last, uint32_t* kept_row, double* share) {
    __shared__ int of_warps[9];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int many = 0;
    for (uint32_t base = first; base < last; base += 256) {
        const uint32_t i = base + threadIdx.x;
        uint2 pair = make_uint2(0u, 0u);
        double r = 0.0;
        if (i < last) {
            pair = sorted[i];
            r = values[pair.y];
        }
        const bool keep = r > negligible;
        const unsigned all = __ballot_sync(FULL, keep);
        if (lane == 0) of_warps[warp] = __popc(all);
        __syncthreads();
        int at = many + __popc(all & ((1u << lane) - 1)), total = 0;
        for (int w = 0; w < 8; w++) {
            if (w < warp) at += of_warps[w];
            total += of_warps[w];
        }
        if (keep) {
            kept_row[at] = pair.x;
            share[at] = row_weights ? r * row_weights[pair.x] : r;
        }
        many += total;
        __syncthreads();
    }
    return many;
}

// N, the sums of y = x - c and of y y^T over the rows of a segment, each times its responsibility and weight; what is not
// above `negligible` is left out. 8 warps share the tiles of 16 x 8 of the triangle; rows come 32 at a time.
template <typename T, int NB>
static __device__ __forceinline__ void statistics(const T* rows, int dim, const double* center, const uint2* sorted,
        const double* values, const double* row_weights, double negligible, const uint32_t* start, const uint32_t* before,
        int num_clusters, double* parts) {
    constexpr int D = NB * 16, TILES = NB * (NB + 1), MINE = (TILES + 7) / 8, STRIDE = D + 4, GROUPS = 256 / D;
    double* y = (double*)shared_memory;
    double* share = y + 32 * STRIDE;
    uint32_t* kept_row = (uint32_t*)(share + SEGMENT);
    const uint32_t segment = blockIdx.x;
    if (segment >= before[num_clusters]) return;
    const int k = cluster_of_segment(before, num_clusters, segment);
    const uint32_t first = start[k] + (segment - before[k]) * SEGMENT, last = min(start[k + 1], first + SEGMENT);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int many = pairs_that_count(sorted, values, row_weights, negligible, first, last, kept_row, share);
    double acc[MINE][4];
#pragma unroll
    for (int n = 0; n < MINE; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0.0;
    double sum = 0.0;
    // Rows come while those before are worked on.
    constexpr int EACH = 32 * D / 256;
    T next[EACH];
    auto fetch = [&](int base) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int i = threadIdx.x + 256 * e, n = base + i / D, d = i % D;
            next[e] = n < many && d < dim ? __ldg(rows + (size_t)kept_row[n] * dim + d) : (T)0;
        }
    };
    fetch(0);
    for (int base = 0; base < many; base += 32) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int i = threadIdx.x + 256 * e, n = i / D, d = i % D;
            y[n * STRIDE + d] = base + n < many && d < dim ? (double)next[e] - center[d] : 0.0;
        }
        __syncthreads();
        fetch(base + 32);
        const int here = min(32, many - base);
        // Sums of y by all threads, each a column of every GROUPS-th row.
        for (int n = threadIdx.x / D; n < here; n += GROUPS) sum = fma(share[base + n], y[n * STRIDE + threadIdx.x % D], sum);
        for (int s = 0; s < here; s += 8) {
            const double one = base + s + t < many ? share[base + s + t] : 0.0;
            const double two = base + s + t + 4 < many ? share[base + s + t + 4] : 0.0;
            const double *u = y + (s + t) * STRIDE + g, *v = y + (s + t + 4) * STRIDE + g;
#pragma unroll
            for (int n = 0; n < MINE; n++) {
                const int tile = warp + 8 * n;
                if (tile < TILES) {
                    // Rows 16 i of the triangle have 2 (i + 1) tiles.
                    int i = 0;
                    while ((i + 1) * (i + 2) <= tile) i++;
                    const int j = tile - i * (i + 1);
                    mma_double(acc[n], one * u[16 * i], one * u[16 * i + 8], two * v[16 * i], two * v[16 * i + 8], u[8 * j],
                               v[8 * j]);
                }
            }
        }
        __syncthreads();
    }
    double* out = parts + (size_t)segment * (1 + dim + triangle(dim));
    y[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < dim) {
        sum = y[threadIdx.x];
        for (int group = 1; group < GROUPS; group++) sum += y[group * D + threadIdx.x];
        out[1 + threadIdx.x] = sum;
    }
    if (warp == 0) {
        double count = 0.0;
        for (int n = lane; n < many; n += 32) count += share[n];
        for (int step = 16; step; step >>= 1) count += __shfl_xor_sync(FULL, count, step);
        if (lane == 0) out[0] = count;
    }
#pragma unroll
    for (int n = 0; n < MINE; n++) {
        const int tile = warp + 8 * n;
        if (tile < TILES) {
            int i = 0;
            while ((i + 1) * (i + 2) <= tile) i++;
            const int j = tile - i * (i + 1);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = 16 * i + g + (e >> 1) * 8, column = 8 * j + 2 * t + (e & 1);
                if (row < dim && column <= row) out[1 + dim + triangle(row) + column] = acc[n][e];
            }
        }
    }
}

#define STATISTICS(NAME, T, NB)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) NAME(const T* rows, int dim, const double* center, const uint2* sorted,  \
            const double* values, const double* row_weights, double negligible, const uint32_t* start, const uint32_t* before, \
            int num_clusters, double* parts) {                                                                                 \
        statistics<T, NB>(rows, dim, center, sorted, values, row_weights, negligible, start, before, num_clusters, parts);     \
    }

STATISTICS(statistics_f32_1, float, 1)
STATISTICS(statistics_f32_2, float, 2)
STATISTICS(statistics_f32_4, float, 4)
STATISTICS(statistics_f32_8, float, 8)
STATISTICS(statistics_f64_1, double, 1)
STATISTICS(statistics_f64_2, double, 2)
STATISTICS(statistics_f64_4, double, 4)
STATISTICS(statistics_f64_8, double, 8)

// Add the segments of each cluster to its total, in order.
extern "C" __global__ void reduce(const double* parts, const uint32_t* before, int num_clusters, int width, double* total) {
    const int k = blockIdx.x;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        double sum = total[(size_t)k * width + i];
        for (uint32_t s = before[k]; s < before[k + 1]; s++) sum += parts[(size_t)s * width + i];
        total[(size_t)k * width + i] = sum;
    }
}

// ---------------------------------------------------------------------------------------------------- many columns

// Factors of more columns than shared memory has room for: all clusters of a row are weighed, in tiles of 64 by 64. Numbers
// come to shared memory DEEP at a time, those of 64 rows or columns side by side; the stride keeps 16 lanes in 16 banks.
#define WIDE 64
#define DEEP 16
#define WIDE_STRIDE (WIDE + 4)

// d += A B for the 16 rows of A from `at` on and N tiles of 8 columns of B from `from` on, over DEEP products.
template <int N>
static __device__ __forceinline__ void add_products(double (&d)[N][4], const double (*a)[WIDE_STRIDE],
                                                    const double (*b)[WIDE_STRIDE], int at, int from) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int k = 0; k < DEEP; k += 8) {
        const double a0 = a[k + t][at + g], a1 = a[k + t][at + g + 8];
        const double a2 = a[k + t + 4][at + g], a3 = a[k + t + 4][at + g + 8];
#pragma unroll
        for (int n = 0; n < N; n++)
            mma_double(d[n], a0, a1, a2, a3, b[k + t][from + 8 * n + g], b[k + t + 4][from + 8 * n + g]);
    }
}

// The weights of pairs, as `decide` has them, of ||M (x - m)||^2. A warp has 16 of 64 rows.
template <typename T>
static __device__ __forceinline__ void decide_wide(const T* rows, int dim, const double* factors, const double* means,
        const double* constants, const uint2* sorted, const uint32_t* start, const uint32_t* before, int num_clusters,
        double* weights) {
    __shared__ double y[DEEP][WIDE_STRIDE], m[DEEP][WIDE_STRIDE];
    const uint32_t segment = blockIdx.x;
    if (segment >= before[num_clusters]) return;
    const int k = cluster_of_segment(before, num_clusters, segment);
    const uint32_t first = start[k] + (segment - before[k]) * SEGMENT, last = min(start[k + 1], first + SEGMENT);
    const double *factor = factors + (size_t)k * triangle(dim), *mean = means + (size_t)k * dim, constant = constants[k];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    for (uint32_t base = first; base < last; base += WIDE) {
        double q0 = 0.0, q1 = 0.0;
        for (int column = 0; column < dim; column += WIDE) {
            double d[8][4] = {};
            // Behind the diagonal there is nothing.
            const int end = min(dim, column + WIDE);
            for (int from = 0; from < end; from += DEEP) {
                __syncthreads();
                for (int i = threadIdx.x; i < WIDE * DEEP; i += 128) {
                    const int n = i / DEEP, depth = i % DEEP, at = from + depth, row = column + n;
                    const uint32_t pair = min(base + n, last - 1);
                    y[depth][n] = at < dim ? (double)__ldg(rows + (size_t)sorted[pair].x * dim + at) - mean[at] : 0.0;
                    m[depth][n] = row < dim && at <= row ? factor[triangle(row) + at] : 0.0;
                }
                __syncthreads();
                add_products(d, y, m, 16 * warp, 0);
            }
#pragma unroll
            for (int n = 0; n < 8; n++) {
                q0 = fma(d[n][0], d[n][0], q0), q0 = fma(d[n][1], d[n][1], q0);
                q1 = fma(d[n][2], d[n][2], q1), q1 = fma(d[n][3], d[n][3], q1);
            }
        }
        q0 += __shfl_xor_sync(FULL, q0, 1), q0 += __shfl_xor_sync(FULL, q0, 2);
        q1 += __shfl_xor_sync(FULL, q1, 1), q1 += __shfl_xor_sync(FULL, q1, 2);
        const uint32_t one = base + 16 * warp + g, other = one + 8;
        if (t == 0 && one < last) weights[sorted[one].y] = constant - 0.5 * q0;
        if (t == 1 && other < last) weights[sorted[other].y] = constant - 0.5 * q1;
    }
}

// Sums of a part of a cluster's segments, as `statistics` has them: a block for each tile of the triangle, part and
// cluster. 4 by 2 warps have 16 by 32 of a tile; the first column of tiles sums y too, and the first tile N.
template <typename T>
static __device__ __forceinline__ void sum_wide(const T* rows, int dim, const double* center, const uint2* sorted,
        const double* values, const double* row_weights, double negligible, const uint32_t* start, const uint32_t* before,
        int parts_each, double* parts) {
    __shared__ double share[SEGMENT];
    __shared__ uint32_t kept_row[SEGMENT];
    __shared__ double high[DEEP][WIDE_STRIDE], low[DEEP][WIDE_STRIDE];
    const int tiles = triangle((dim + WIDE - 1) / WIDE), tile = blockIdx.x % tiles;
    const int part = blockIdx.x / tiles % parts_each, k = blockIdx.x / tiles / parts_each;
    int i0 = 0;
    while (triangle(i0 + 1) <= tile) i0++;
    const int j0 = (tile - triangle(i0)) * WIDE;
    i0 *= WIDE;
    const uint32_t segments = before[k + 1] - before[k];
    const uint32_t begin = (uint64_t)segments * part / parts_each, end = (uint64_t)segments * (part + 1) / parts_each;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int at = 16 * (warp & 3), from = 32 * (warp >> 2);
    double d[4][4] = {}, sum = 0.0, count = 0.0;
    for (uint32_t segment = begin; segment < end; segment++) {
        const uint32_t first = start[k] + segment * SEGMENT, last = min(start[k + 1], first + SEGMENT);
        const int many = pairs_that_count(sorted, values, row_weights, negligible, first, last, kept_row, share);
        for (int base = 0; base < many; base += DEEP) {
            __syncthreads();
            for (int i = threadIdx.x; i < WIDE * DEEP; i += 256) {
                const int n = i / WIDE, c = i % WIDE;
                const T* x = rows + (size_t)kept_row[min(base + n, many - 1)] * dim;
                const double r = base + n < many ? share[base + n] : 0.0;
                high[n][c] = i0 + c < dim ? r * ((double)__ldg(x + i0 + c) - center[i0 + c]) : 0.0;
                low[n][c] = j0 + c < dim ? (double)__ldg(x + j0 + c) - center[j0 + c] : 0.0;
            }
            __syncthreads();
            add_products(d, high, low, at, from);
            if (j0 == 0 && threadIdx.x < WIDE)
                for (int n = 0; n < DEEP; n++) sum += high[n][threadIdx.x];
        }
        if (tile == 0 && threadIdx.x == 0)
            for (int n = 0; n < many; n++) count += share[n];
        // What counts of the next segment takes the place of this.
        __syncthreads();
    }
    double* out = parts + ((size_t)k * parts_each + part) * (1 + dim + triangle(dim));
    if (tile == 0 && threadIdx.x == 0) out[0] = count;
    if (j0 == 0 && threadIdx.x < WIDE && i0 + threadIdx.x < dim) out[1 + i0 + threadIdx.x] = sum;
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int row = i0 + at + g + 8 * (e >> 1), column = j0 + from + 8 * n + 2 * t + (e & 1);
            if (row < dim && column <= row) out[1 + dim + triangle(row) + column] = d[n][e];
        }
}

#define WIDE_KERNELS(SUFFIX, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) decide_wide_##SUFFIX(const T* rows, int dim, const double* factors,      \
            const double* means, const double* constants, const uint2* sorted, const uint32_t* start, const uint32_t* before,  \
            int num_clusters, double* weights) {                                                                               \
        decide_wide(rows, dim, factors, means, constants, sorted, start, before, num_clusters, weights);                       \
    }                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256) sum_wide_##SUFFIX(const T* rows, int dim, const double* center,          \
            const uint2* sorted, const double* values, const double* row_weights, double negligible, const uint32_t* start,    \
            const uint32_t* before, int parts_each, double* parts) {                                                           \
        sum_wide(rows, dim, center, sorted, values, row_weights, negligible, start, before, parts_each, parts);                \
    }

WIDE_KERNELS(f32, float)
WIDE_KERNELS(f64, double)

// ---------------------------------------------------------------------------------------------------- columns apart

// Clusters whose forms are sums over columns, w = c_k - sum_d p_kd (x_d - m_kd)^2 / 2. In the units z = (x - c) s that is a
// constant, b_k z less a_k z^2 with a = p / 2 s^2 and b = p m / s: one product of 2 D numbers for all clusters at once,
// whatever D is. It screens in FP16 with a bound on its error as above, and pairs that are left are decided in FP64 by the
// form itself.

// What z and z^2 are multiplied by to make good use of the range of FP16.
#define PLAIN_SCALE 32.f
#define SQUARE_SCALE 4.f

// Numbers of a row: z, then z^2, `padded` of each, with zeros behind; and a bound on the error of any product with them, as
// a share of the other factor's norm. Rows beyond the range of FP16 get an infinite bound. A warp a row.
template <typename T>
static __device__ void spread_columns(const T* rows, int num_rows, int dim, int padded, const double* center,
        const double* scale, __half* out, float* reach) {
    const int lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x >> 5);
    // Both factors are rounded to FP16, and sums to FP32 or worse as often as there are numbers.
    const float rounding = ROUNDING + 4.f * padded / (1 << 24), underflow = 1.1f * sqrtf(2.f * padded) / (1 << 25);
    for (int n = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); n < num_rows; n += warps) {
        __half* row = out + (size_t)n * 2 * padded;
        float square = 0.f;
        bool beyond = false;
        for (int d = lane; d < padded; d += 32) {
            const double z = d < dim ? ((double)rows[(size_t)n * dim + d] - center[d]) * scale[d] : 0.0;
            const float one = (float)z * PLAIN_SCALE, two = (float)(z * z) * SQUARE_SCALE;
            const bool fits = fabsf(one) < 60000.f && two < 60000.f;
            beyond |= !fits;
            row[d] = __float2half_rn(fits ? one : 0.f);
            row[padded + d] = __float2half_rn(fits ? two : 0.f);
            square += one * one + two * two;
        }
        for (int step = 16; step; step >>= 1) square += __shfl_xor_sync(FULL, square, step);
        beyond = __any_sync(FULL, beyond);
        if (lane == 0) reach[n] = beyond ? infinity() : rounding * sqrtf(square) + underflow;
    }
}

extern "C" __global__ void __launch_bounds__(256) spread_columns_f32(const float* rows, int num_rows, int dim, int padded,
        const double* center, const double* scale, __half* out, float* reach) {
    spread_columns(rows, num_rows, dim, padded, center, scale, out, reach);
}
extern "C" __global__ void __launch_bounds__(256) spread_columns_f64(const double* rows, int num_rows, int dim, int padded,
        const double* center, const double* scale, __half* out, float* reach) {
    spread_columns(rows, num_rows, dim, padded, center, scale, out, reach);
}

static __device__ double sum_of_block(double mine, double* part) {
    part[threadIdx.x] = mine;
    for (int half = 64; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    const double sum = part[0];
    __syncthreads();
    return sum;
}

// What a lap needs of each cluster for the screen: b and -a in FP16, divided by a power of two; and a constant, that power,
// and the norm of both.
extern "C" __global__ void __launch_bounds__(128) prepare_columns(const double* precisions, const double* means,
        const double* constants, const double* center, const double* scale, int dim, int padded, __half* pack,
        float4* limits) {
    __shared__ double part[128];
    __shared__ float largest[128];
    const int k = blockIdx.x, tid = threadIdx.x;
    const double *p = precisions + (size_t)k * dim, *m = means + (size_t)k * dim;
    float most = 0.f;
    double offset = 0.0;
    for (int d = tid; d < dim; d += 128) {
        const double s = scale[d], mean = m[d] - center[d];
        most = fmaxf(most, fabsf((float)(p[d] * mean / s)) / PLAIN_SCALE);
        most = fmaxf(most, (float)(0.5 * p[d] / (s * s)) / SQUARE_SCALE);
        offset = fma(0.5 * p[d] * mean, mean, offset);
    }
    largest[tid] = most;
    for (int half = 64; half; half >>= 1) {
        __syncthreads();
        if (tid < half) largest[tid] = fmaxf(largest[tid], largest[tid + half]);
    }
    __syncthreads();
    int exponent;
    frexpf(largest[0], &exponent);
    // The largest entry is between 256 and 512 then.
    const double unit = largest[0] > 0.f ? (double)ldexpf(1.f, exponent - 9) : 1.0;
    __half* out = pack + (size_t)k * 2 * padded;
    double square = 0.0;
    for (int d = tid; d < padded; d += 128) {
        double one = 0.0, two = 0.0;
        if (d < dim) {
            const double s = scale[d];
            one = p[d] * (m[d] - center[d]) / s / PLAIN_SCALE / unit;
            two = -0.5 * p[d] / (s * s) / SQUARE_SCALE / unit;
        }
        out[d] = __float2half_rn((float)one);
        out[padded + d] = __float2half_rn((float)two);
        square = fma(one, one, fma(two, two, square));
    }
    offset = sum_of_block(offset, part);
    square = sum_of_block(square, part);
    if (tid == 0)
        limits[k] = make_float4((float)(constants[k] - offset), (float)unit, (float)(1.001 * unit * sqrt(square)), 0.f);
}

static __device__ __forceinline__ void load_four(uint32_t (&to)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
}

// A block has 128 rows, a thread each, and goes through the clusters 64 at a time. Numbers of rows and clusters come to
// shared memory 32 at a time, several steps ahead; where rows are `resident` all of theirs stay there. The products of a
// warp's rows go by way of shared memory to the threads that own the rows.
#define ROW_TILE 128
#define CLUSTER_TILE 64
#define DEPTH 32
#define AHEAD 3
#define SCORE_STRIDE (CLUSTER_TILE + 1)

extern "C" __global__ void __launch_bounds__(ROW_TILE, 2) screen_columns(const __half* rows, const float* reach,
        const __half* pack, const float4* limits, int num_rows, int num_clusters, int width, int resident, int sparsity,
        float rounding, uint2* candidates, int* counts, float* thresholds) {
    constexpr int LT = 8, ROW_BYTES = ROW_TILE * DEPTH * 2, CLUSTER_BYTES = CLUSTER_TILE * DEPTH * 2;
    const int chunks = width / DEPTH, tiles = (num_clusters + CLUSTER_TILE - 1) / CLUSTER_TILE, steps = tiles * chunks;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const int base = blockIdx.x * ROW_TILE, own = base + tid;
    float* scores = (float*)shared_memory;
    float4* constants = (float4*)(scores + ROW_TILE * SCORE_STRIDE);
    unsigned char* of_clusters = (unsigned char*)(constants + (AHEAD + 1) * CLUSTER_TILE);
    unsigned char* of_rows = of_clusters + AHEAD * CLUSTER_BYTES;
    const uint32_t clusters_at = (uint32_t)__cvta_generic_to_shared(of_clusters);
    const uint32_t rows_at = (uint32_t)__cvta_generic_to_shared(of_rows);
    // Pieces of 16 bytes are exchanged so that 8 rows of a column of them lie in different banks.
    auto place = [](int row, int piece) { return row * (DEPTH * 2) + ((piece ^ ((row >> 1) & 3)) << 4); };
    auto load = [&](int step) {
        if (step < steps) {
            const int tile = step / chunks, chunk = step % chunks, at = step % AHEAD;
#pragma unroll
            for (int i = tid; i < CLUSTER_TILE * 4; i += ROW_TILE) {
                const int n = i >> 2, piece = i & 3;
                const __half* from = pack + (size_t)(tile * CLUSTER_TILE + n) * width + chunk * DEPTH + piece * 8;
                copy16(of_clusters + at * CLUSTER_BYTES + place(n, piece), from);
            }
            if (!resident || tile == 0) {
                const int to = resident ? chunk : at;
#pragma unroll
                for (int i = tid; i < ROW_TILE * 4; i += ROW_TILE) {
                    const int n = i >> 2, piece = i & 3;
                    const __half* from = rows + (size_t)min(base + n, num_rows - 1) * width + chunk * DEPTH + piece * 8;
                    copy16(of_rows + to * ROW_BYTES + place(n, piece), from);
                }
            }
            if (chunk == 0 && tid < CLUSTER_TILE)
                copy16(constants + (tile % (AHEAD + 1)) * CLUSTER_TILE + tid, limits + tile * CLUSTER_TILE + tid);
        }
        asm volatile("cp.async.commit_group;");
    };
    const float own_reach = own < num_rows ? reach[own] : 0.f;
    uint2* list = candidates + (size_t)min(own, num_rows - 1) * ROOM;
    float best[LT];
    int count = 0;
#pragma unroll
    for (int i = 0; i < LT; i++) best[i] = own < num_rows && i >= LT - sparsity ? -infinity() : infinity();
    float acc[2][8][4] = {};
#pragma unroll
    for (int step = 0; step < AHEAD - 1; step++) load(step);
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2));
        __syncthreads();
        load(step + AHEAD - 1);
        const int chunk = step % chunks, at = step % AHEAD;
        const uint32_t b_at = clusters_at + at * CLUSTER_BYTES, a_at = rows_at + (resident ? chunk : at) * ROW_BYTES;
#pragma unroll
        for (int half = 0; half < DEPTH / 16; half++) {
            uint32_t a[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++)
                load_four(a[m], a_at + place(warp * 32 + m * 16 + (lane & 15), half * 2 + (lane >> 4)));
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint32_t b[4];
                load_four(b, b_at + place(j * 16 + (lane & 7) + ((lane >> 4) << 3), half * 2 + ((lane >> 3) & 1)));
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    mma_half(acc[m][2 * j], a[m], b[0], b[1]);
                    mma_half(acc[m][2 * j + 1], a[m], b[2], b[3]);
                }
            }
        }
        if (chunk + 1 < chunks) continue;
        // All products of these clusters are there.
        const int tile = step / chunks;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float* to = scores + (warp * 32 + m * 16 + g) * SCORE_STRIDE + j * 8 + 2 * t;
                to[0] = acc[m][j][0], to[1] = acc[m][j][1];
                to[8 * SCORE_STRIDE] = acc[m][j][2], to[8 * SCORE_STRIDE + 1] = acc[m][j][3];
                acc[m][j][0] = acc[m][j][1] = acc[m][j][2] = acc[m][j][3] = 0.f;
            }
        __syncwarp();
        const float* mine = scores + tid * SCORE_STRIDE;
        const float4* of_tile = constants + (tile % (AHEAD + 1)) * CLUSTER_TILE;
        const int many = own < num_rows ? min(CLUSTER_TILE, num_clusters - tile * CLUSTER_TILE) : 0;
#pragma unroll 4
        for (int c = 0; c < many; c++) {
            const float4 of = of_tile[c];
            const float form = of.y * mine[c], w = of.x + form;
            const float error = fmaf(of.z, own_reach, rounding * (fabsf(form) + fabsf(of.x))), high = w + error;
            // A number that is none is a candidate too.
            if (!(high < best[LT - 1])) {
                float low = w - error;
                low = low == low ? low : -infinity();
#pragma unroll
                for (int i = 0; i < LT; i++) {
                    const float more = fmaxf(best[i], low);
                    low = fminf(best[i], low);
                    best[i] = more;
                }
                if (count == ROOM) count = still_in(list, ROOM, best[LT - 1]);
                if (count < ROOM)
                    list[count] = make_uint2(tile * CLUSTER_TILE + c, __float_as_uint(high == high ? high : infinity()));
                if (count <= ROOM) count++;
            }
        }
        __syncwarp();
    }
    if (own < num_rows) {
        counts[own] = count;
        thresholds[own] = best[LT - 1];
    }
}

// The weights of pairs in FP64 by the form itself, written where the pair is in the order of rows. A warp a pair.
template <typename T>
static __device__ __forceinline__ void decide_columns(const T* rows, int dim, const double* precisions, const double* means,
        const double* constants, const uint2* sorted, const uint32_t* start, const uint32_t* before, int num_clusters,
        double* weights) {
    double *p = (double*)shared_memory, *m = p + dim;
    const uint32_t segment = blockIdx.x;
    if (segment >= before[num_clusters]) return;
    const int k = cluster_of_segment(before, num_clusters, segment);
    const uint32_t first = start[k] + (segment - before[k]) * SEGMENT, last = min(start[k + 1], first + SEGMENT);
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        p[d] = precisions[(size_t)k * dim + d];
        m[d] = means[(size_t)k * dim + d];
    }
    __syncthreads();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const double constant = constants[k];
    for (uint32_t i = first + warp; i < last; i += warps) {
        const uint2 pair = sorted[i];
        const T* x = rows + (size_t)pair.x * dim;
        double form = 0.0;
#pragma unroll 4
        for (int d = lane; d < dim; d += 32) {
            const double y = (double)__ldg(x + d) - m[d];
            form = fma(p[d] * y, y, form);
        }
        for (int step = 16; step; step >>= 1) form += __shfl_xor_sync(FULL, form, step);
        if (lane == 0) weights[pair.y] = constant - 0.5 * form;
    }
}

// N, the sums of y = x - c and of y^2 over the rows of a segment, as above. Threads have a column each, and where columns
// are few several groups of them share the rows.
template <typename T>
static __device__ __forceinline__ void sum_columns(const T* rows, int dim, const double* center, const uint2* sorted,
        const double* values, const double* row_weights, double negligible, const uint32_t* start, const uint32_t* before,
        int num_clusters, double* parts) {
    __shared__ double share[SEGMENT];
    __shared__ uint32_t kept_row[SEGMENT];
    __shared__ double sums[2][256];
    const uint32_t segment = blockIdx.x;
    if (segment >= before[num_clusters]) return;
    const int k = cluster_of_segment(before, num_clusters, segment);
    const uint32_t begin = start[k] + (segment - before[k]) * SEGMENT, end = min(start[k + 1], begin + SEGMENT);
    const int many = pairs_that_count(sorted, values, row_weights, negligible, begin, end, kept_row, share);
    double* out = parts + (size_t)segment * (1 + 2 * dim);
    const int columns = dim >= 256 ? 256 : (dim + 31) & ~31, groups = 256 / columns;
    const int group = threadIdx.x / columns, column = threadIdx.x % columns;
    for (int from = 0; from < dim; from += columns) {
        const int d = from + column;
        double first = 0.0, second = 0.0;
        if (group < groups && d < dim) {
            const double c = center[d];
#pragma unroll 8
            for (int n = group; n < many; n += groups) {
                const double y = (double)__ldg(rows + (size_t)kept_row[n] * dim + d) - c, part = share[n] * y;
                first += part;
                second = fma(part, y, second);
            }
        }
        sums[0][threadIdx.x] = first, sums[1][threadIdx.x] = second;
        __syncthreads();
        if (group == 0 && d < dim) {
            for (int other = 1; other < groups; other++) {
                first += sums[0][other * columns + column];
                second += sums[1][other * columns + column];
            }
            out[1 + d] = first;
            out[1 + dim + d] = second;
        }
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        double count = 0.0;
        for (int n = threadIdx.x; n < many; n += 32) count += share[n];
        for (int step = 16; step; step >>= 1) count += __shfl_xor_sync(FULL, count, step);
        if (threadIdx.x == 0) out[0] = count;
    }
}

#define COLUMNS(SUFFIX, T)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(256) decide_columns_##SUFFIX(const T* rows, int dim,                          \
            const double* precisions, const double* means, const double* constants, const uint2* sorted,                       \
            const uint32_t* start, const uint32_t* before, int num_clusters, double* weights) {                                \
        decide_columns(rows, dim, precisions, means, constants, sorted, start, before, num_clusters, weights);                 \
    }                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256) sum_columns_##SUFFIX(const T* rows, int dim, const double* center,       \
            const uint2* sorted, const double* values, const double* row_weights, double negligible, const uint32_t* start,    \
            const uint32_t* before, int num_clusters, double* parts) {                                                         \
        sum_columns(rows, dim, center, sorted, values, row_weights, negligible, start, before, num_clusters, parts);           \
    }

COLUMNS(f32, float)
COLUMNS(f64, double)

// ---------------------------------------------------------------------------------------------------- one form for all

// Clusters that share one form, w = c_k - ||M (x - c) - m_k||^2 / 2: rows are turned, z = M (x - c) in FP64, M being
// lower-triangular, row by row; what is left is a sum over columns as above. A block has 64 rows and 64 columns of z.
#define TURNED 64
#define TURNED_DEPTH 16

template <typename T>
static __device__ __forceinline__ void turn(const T* rows, int num_rows, int dim, const double* factor, const double* center,
        double* out) {
    __shared__ double x[TURNED_DEPTH][TURNED + 1], m[TURNED_DEPTH][TURNED + 1];
    const int across = (dim + TURNED - 1) / TURNED;
    const int first = blockIdx.x / across * TURNED, column = blockIdx.x % across * TURNED;
    const int c = threadIdx.x & 15, r = threadIdx.x >> 4;
    double sum[4][4] = {};
    // Behind the diagonal there is nothing.
    const int end = min(dim, column + TURNED);
    for (int from = 0; from < end; from += TURNED_DEPTH) {
        for (int i = threadIdx.x; i < TURNED * TURNED_DEPTH; i += 256) {
            const int n = i / TURNED_DEPTH, depth = i % TURNED_DEPTH, d = from + depth, row = column + n;
            x[depth][n] = first + n < num_rows && d < dim ? (double)rows[(size_t)(first + n) * dim + d] - center[d] : 0.0;
            m[depth][n] = row < dim && d <= row ? factor[(size_t)row * dim + d] : 0.0;
        }
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < TURNED_DEPTH; depth++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] = fma(m[depth][c + 16 * j], x[depth][r + 16 * i], sum[i][j]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int n = first + r + 16 * i, d = column + c + 16 * j;
            if (n < num_rows && d < dim) out[(size_t)n * dim + d] = sum[i][j];
        }
}

extern "C" __global__ void __launch_bounds__(256) turn_f32(const float* rows, int num_rows, int dim, const double* factor,
        const double* center, double* out) {
    turn(rows, num_rows, dim, factor, center, out);
}
extern "C" __global__ void __launch_bounds__(256) turn_f64(const double* rows, int num_rows, int dim, const double* factor,
        const double* center, double* out) {
    turn(rows, num_rows, dim, factor, center, out);
}
