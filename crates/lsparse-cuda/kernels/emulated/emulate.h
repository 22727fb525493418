// Enough of CUDA to run a kernel on a processor, a block at a time, its threads being fibers: for testing what a kernel
// does where there is no GPU. Built with `-DEMULATED`; it says nothing of races or speed.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <functional>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
// Blocks run one after the other, so that what a block shares may be static.
#define __shared__ static
#define DYNAMIC_SHARED(name) float *name = emulated::room.data()

struct float2 {
    float x, y;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
static std::vector<float> room;
constexpr size_t STACK = 128 << 10;
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool ended = false;
    unsigned thread = 0;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static unsigned current;
static std::function<void()> body;
struct Barrier {
    unsigned arrived = 0, round = 0;
};
static Barrier of_block;
static std::vector<Barrier> of_warp;
static std::vector<u_int64_t> slots;

static void yield() {
    const unsigned self = current;
    swapcontext(&fibers[self].context, &scheduler);
}
static void arrive(Barrier &barrier, unsigned number) {
    const unsigned round = barrier.round;
    if (++barrier.arrived == number) {
        barrier.arrived = 0;
        barrier.round++;
        return;
    }
    while (barrier.round == round) yield();
}
static void warp() { arrive(of_warp[current / 32], 32); }
static void enter() {
    body();
    fibers[current].ended = true;
    yield();
}
// A value of another lane of the warp: `of` is called with all 32 of them.
template <class T, class F>
auto of_lanes(T value, F of) {
    static_assert(sizeof(T) <= 8);
    memcpy(&slots[current], &value, sizeof(T));
    warp();
    T lanes[32];
    for (int l = 0; l < 32; l++) memcpy(&lanes[l], &slots[current / 32 * 32 + l], sizeof(T));
    warp();
    return of(lanes);
}

// Run a kernel: `blocks` blocks of `threads` threads, with `bytes` of dynamic shared memory.
template <class F>
void launch(dim3 blocks, unsigned threads, size_t bytes, F kernel) {
    room.assign(bytes / 4 + 1, NAN);
    body = kernel;
    gridDim = blocks;
    blockDim.x = threads;
    for (unsigned b = 0; b < blocks.x * blocks.y; b++) {
        blockIdx.x = b % blocks.x;
        blockIdx.y = b / blocks.x;
        of_block = Barrier();
        of_warp.assign(threads / 32, Barrier());
        slots.assign(threads, 0);
        if (fibers.size() < threads) fibers.resize(threads);
        for (unsigned t = 0; t < threads; t++) {
            Fiber &fiber = fibers[t];
            fiber.stack.resize(STACK);
            fiber.ended = false;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data();
            fiber.context.uc_stack.ss_size = STACK;
            fiber.context.uc_link = &scheduler;
            makecontext(&fiber.context, enter, 0);
        }
        for (bool going = true; going;) {
            going = false;
            for (unsigned t = 0; t < threads; t++) {
                if (fibers[t].ended) continue;
                going = true;
                current = t;
                threadIdx.x = t;
                swapcontext(&scheduler, &fibers[t].context);
            }
        }
    }
}
}  // namespace emulated

using std::max;
using std::min;
static void __syncthreads() { emulated::arrive(emulated::of_block, blockDim.x); }
static void __syncwarp() { emulated::warp(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int o) {
    const unsigned lane = emulated::current & 31;
    return emulated::of_lanes(value, [=](T *lanes) { return lanes[lane ^ o]; });
}
static unsigned __ballot_sync(unsigned, bool value) {
    return emulated::of_lanes(value, [](bool *lanes) {
        unsigned bits = 0;
        for (int l = 0; l < 32; l++) bits |= (unsigned)lanes[l] << l;
        return bits;
    });
}
static bool __any_sync(unsigned mask, bool value) { return __ballot_sync(mask, value) != 0; }
static unsigned __reduce_max_sync(unsigned, unsigned value) {
    return emulated::of_lanes(value, [](unsigned *lanes) { return *std::max_element(lanes, lanes + 32); });
}
static unsigned __reduce_add_sync(unsigned, unsigned value) {
    return emulated::of_lanes(value, [](unsigned *lanes) {
        unsigned sum = 0;
        for (int l = 0; l < 32; l++) sum += lanes[l];
        return sum;
    });
}
template <class T>
T __ldg(const T *at) {
    return *at;
}
template <class T>
T atomicAdd(T *at, T value) {
    T old = *at;
    *at += value;
    return old;
}
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int __ffs(unsigned bits) { return __builtin_ffs(bits); }
static float2 make_float2(float x, float y) { return {x, y}; }
static float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static int __float_as_int(float value) {
    int bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static unsigned __float2uint_rn(float value) { return (unsigned)llrintf(value); }
static unsigned long long __float2ull_rn(float value) { return (unsigned long long)llrintf(value); }
