// The local step of a mixture of Gaussians.

extern "C" __global__ void fill(float* values, int count, float value) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) values[n] = value;
}
