// Eq. 2 from the products of rows and anchors: the K + 1 smallest of products + bias, one after another
// and of equal ones the first, by one warp per row. `nearest.cu` is faster, in float32 and up to 256
// anchors.
constexpr int WARP = 32, WARPS = THREADS / WARP;

template <class Number, class Join>
__device__ Number over_warp(Number value, Join join) {
    #pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// The indices and weights of neighbour s of row i are at s * apart + i. Weights are NaN where a
// product is not finite.
extern "C" __global__ void __launch_bounds__(THREADS) closest(
    const REAL* __restrict__ products, const REAL* __restrict__ bias, INDEX* indices, REAL* weights,
    double tie, double largest_bias, int n, int m, int apart
) {
    auto add = [](REAL a, REAL b) { return a + b; };
    auto larger = [](REAL a, REAL b) { return a > b ? a : b; };
    const int lane = threadIdx.x % WARP;
    const REAL infinity = __int_as_float(0x7f800000);
    for (long long row = blockIdx.x * WARPS + threadIdx.x / WARP; row < n; row += gridDim.x * WARPS) {
        const REAL* const line = products + row * m;
        REAL size = 0, most = 0;
        for (int j = lane; j < m; j += WARP) size += fabs(line[j]), most = larger(most, fabs(line[j]));
        size = over_warp(size, add), most = over_warp(most, larger);
        REAL last = -infinity, mine = 0;
        int last_column = -1, my_column = 0;
        for (int s = 0; s <= K; ++s) {
            REAL least = infinity;
            int column = m;
            for (int j = lane; j < m; j += WARP) {
                const REAL d = line[j] + bias[j];
                const bool left = d > last || (d == last && j > last_column);
                if (left && d < least) least = d, column = j;
            }
            #pragma unroll
            for (int step = WARP / 2; step > 0; step /= 2) {
                const REAL other = __shfl_xor_sync(~0u, least, step);
                const int place = __shfl_xor_sync(~0u, column, step);
                if (other < least || (other == least && place < column)) least = other, column = place;
            }
            if (lane == s) mine = least, my_column = min(column, m - 1);
            last = least, last_column = column;
        }
        const REAL gap = lane < K ? last - mine : REAL(0), total = over_warp(gap, add);
        const bool tied = total <= REAL(tie) * larger(most, REAL(largest_bias));
        if (lane >= K) continue;
        const REAL share = tied ? REAL(1) / K : gap / total;
        indices[(long long)lane * apart + row] = my_column;
        weights[(long long)lane * apart + row] = isfinite(size) ? share : infinity - infinity;
    }
}
