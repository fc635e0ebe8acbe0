// Return the sum over the THREADS threads of a block, in all of them; `parts` is shared memory for one
// number per warp.
constexpr int WARP = 32, WARPS = THREADS / WARP;

__device__ double block_sum(double* parts, double value) {
    #pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(~0u, value, apart);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += parts[w];
    return sum;
}
