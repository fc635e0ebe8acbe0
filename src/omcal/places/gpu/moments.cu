// Compute means of features and sums of squares about them, of parts of the rows. Each block reads one
// part of the rows and COLUMNS features. Without it, 10⁷ × 448 takes 1.4 times as long (ablations_gpu.py).
#include "number.cuh"

constexpr int WARP = 32, WARPS = THREADS / WARP, COLUMNS = WARP * A_LANE;

// Return the sum of a lane's value over the warps, in all threads.
__device__ double over_warps(double* room, double value) {
    const int lane = threadIdx.x % WARP;
    __syncthreads();
    room[threadIdx.x] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += room[w * WARP + lane];
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) moments(
    const XT* X, double* counts, double* means, double* squares,
    int n, int width, int row_stride, int column_stride, int part
) {
    extern __shared__ unsigned char memory[];
    double* const room = reinterpret_cast<double*>(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int tiles = (width + COLUMNS - 1) / COLUMNS, number_of_part = blockIdx.x / tiles;
    const int left = blockIdx.x % tiles * COLUMNS + lane;
    const int start = number_of_part * part, stop = start + min(part, n - start);
    const double count = stop - start;
    // Differences to the first row of the part keep the sum of squares from cancelling.
    double first[A_LANE], total[A_LANE] = {}, total_squares[A_LANE] = {};
    #pragma unroll
    for (int i = 0; i < A_LANE; ++i) {
        const int column = min(left + i * WARP, width - 1);
        first[i] = number(X[(long long)start * row_stride + (long long)column * column_stride]);
    }
    #pragma unroll 4
    for (int row = start + warp; row < stop; row += WARPS) {
        #pragma unroll
        for (int i = 0; i < A_LANE; ++i) {
            const int column = min(left + i * WARP, width - 1);
            const double apart = number(X[(long long)row * row_stride + (long long)column * column_stride]) - first[i];
            total[i] += apart;
            total_squares[i] += apart * apart;
        }
    }
    #pragma unroll
    for (int i = 0; i < A_LANE; ++i) {
        const double shift = over_warps(room, total[i]) / count;
        const double about = over_warps(room, total_squares[i]) - shift * shift * count;
        const int column = left + i * WARP;
        if (warp > 0 || column >= width) continue;
        means[(long long)number_of_part * width + column] = first[i] + shift;
        squares[(long long)number_of_part * width + column] = about > 0 ? about : 0;
    }
    if (threadIdx.x == 0) counts[number_of_part] = count;
}
