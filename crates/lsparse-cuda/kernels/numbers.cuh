// Numbers that several kernels need: exp(psi(x)), and sums over a warp.
#pragma once

// exp(psi(x)): 1/x + ... + 1/(x+5) = (2x+5)(3y^2+20y+24)/(y(y+4)(y+6)) with y = x(x+5), then the series at x + 6.
__device__ __forceinline__ float exp_digamma(float x) {
    const float y = x * (x + 5.f);
    const float above = fmaf(y, fmaf(3.f, y, 20.f), 24.f) * fmaf(2.f, x, 5.f);
    const float shift = above / (y * (y + 4.f) * (y + 6.f));
    const float far = x + 6.f, r = 1.f / far, z = r * r;
    const float series = fmaf(z, fmaf(z, fmaf(z, -1.f / 252.f, 1.f / 120.f), -1.f / 12.f), -0.5f * r);
    // For x next to nothing 1/x is beyond all numbers, and its exponential below them.
    return x > 0.f ? far * expf(series - shift) : 0.f;
}

__device__ __forceinline__ double sum_of_warp(double value) {
    for (int o = 16; o; o >>= 1) value += __shfl_xor_sync(~0u, value, o);
    return value;
}
