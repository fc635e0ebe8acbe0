// Greedy k-means++ among n points by their inner products with each other, one block of threads per
// run; the products of two runs are `apart`, 0 where they share their points. Without it, ten
// joined runs of 60000 × 1430 take 1.56 times as long, one run 1.18 (benchmarks/ablations_gpu.py).
constexpr int WARP = 32, WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS) seed(
    const REAL* __restrict__ products, const double* __restrict__ draws,
    const int* __restrict__ firsts, int* chosen, int n, int n_chosen, int apart
) {
    const int run = blockIdx.x, first = firsts[run];
    products += (long long)run * apart;
    draws += (long long)run * (n_chosen - 1) * TRIALS;
    chosen += run * n_chosen;
    extern __shared__ unsigned char memory[];
    double* const cumulative = reinterpret_cast<double*>(memory);
    double* const parts = cumulative + n;  // partial sums, one per warp
    REAL* const closest = reinterpret_cast<REAL*>(parts + WARPS * TRIALS);
    REAL* const norms = closest + n;
    int* const tried = reinterpret_cast<int*>(norms + n);
    int& best = tried[TRIALS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

    // A point is at distance 0 from itself, which rounding must not hide.
    auto distance = [&](int i, int j) {
        const REAL d = REAL(-2) * products[(long long)j * n + i] + norms[i] + norms[j];
        return i == j || d < 0 ? REAL(0) : d;
    };
    for (int i = threadIdx.x; i < n; i += THREADS) norms[i] = products[(long long)i * n + i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) closest[i] = distance(i, first);
    if (threadIdx.x == 0) chosen[0] = first;

    const int share = (n + THREADS - 1) / THREADS;
    const int start = min((int)threadIdx.x * share, n), stop = min(start + share, n);
    for (int step = 1; step < n_chosen; ++step) {
        __syncthreads();
        double sum = 0;
        for (int i = start; i < stop; ++i) sum += closest[i];
        double before = sum;
        #pragma unroll
        for (int apart = 1; apart < WARP; apart *= 2) {
            const double other = __shfl_sync(~0u, before, (lane - apart) & (WARP - 1));
            if (lane >= apart) before += other;
        }
        if (lane == WARP - 1) parts[warp] = before;
        before -= sum;
        __syncthreads();
        for (int w = 0; w < warp; ++w) before += parts[w];
        for (int i = start; i < stop; ++i) cumulative[i] = before += closest[i];
        __syncthreads();

        if (threadIdx.x < TRIALS) {
            const double drawn = draws[(step - 1) * TRIALS + threadIdx.x] * cumulative[n - 1];
            int low = 0, high = n - 1;  // the first point whose sum is not below
            while (low < high) {
                const int middle = (low + high) / 2;
                if (cumulative[middle] < drawn) low = middle + 1;
                else high = middle;
            }
            tried[threadIdx.x] = low;
        }
        __syncthreads();

        double left[TRIALS] = {};
        for (int i = threadIdx.x; i < n; i += THREADS)
            #pragma unroll
            for (int t = 0; t < TRIALS; ++t) {
                const REAL d = distance(i, tried[t]);
                left[t] += d < closest[i] ? d : closest[i];
            }
        #pragma unroll
        for (int t = 0; t < TRIALS; ++t) {
            #pragma unroll
            for (int apart = WARP / 2; apart > 0; apart /= 2)
                left[t] += __shfl_xor_sync(~0u, left[t], apart);
            if (lane == 0) parts[warp * TRIALS + t] = left[t];
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double totals[TRIALS] = {}, least = 0;
            for (int t = 0; t < TRIALS; ++t) {
                for (int w = 0; w < WARPS; ++w) totals[t] += parts[w * TRIALS + t];
                if (t == 0 || totals[t] < least) least = totals[t];
            }
            // Of sums that are the same to rounding, the first.
            for (int t = TRIALS - 1; t >= 0; --t)
                if (totals[t] <= least * (1 + SAME)) best = tried[t];
            chosen[step] = best;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS) {
            const REAL d = distance(i, best);
            if (d < closest[i]) closest[i] = d;
        }
    }
}
