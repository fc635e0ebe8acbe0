// F = max(U + [S_1 ... S_V] P, 0), and S'F as integers in device memory, for any number of clusters:
// `sweep.cu` is faster where its sums fit in shared memory. A thread has an entry of F. Sums of integers
// are the same in any order. There are several copies of the sums, so that fewer threads meet.
// Without it, 10⁶ × 448 with 40 clusters takes 1.8 times as long (benchmarks/ablations_gpu.py).
using Long = unsigned long long;

// The runs have all arrays one after another. `units` is the integer that stands for 1, per run.
extern "C" __global__ void __launch_bounds__(THREADS) spread(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights, const REAL* __restrict__ U,
    const REAL* __restrict__ P, REAL* __restrict__ F, Long* sums, const double* units,
    int n, int m, int copies
) {
    const long long run = blockIdx.y, entries = (long long)n * C, size = (long long)VIEWS * m * C;
    indices += run * VIEWS * K * n, weights += run * VIEWS * K * n;
    U += run * entries, F += run * entries, P += run * size;
    sums += (run * copies + blockIdx.x % copies) * size;
    const double unit = units[run];
    for (long long i = blockIdx.x * THREADS + threadIdx.x; i < entries; i += gridDim.x * THREADS) {
        const long long row = i / C;
        const int column = i % C;
        REAL f = U[i];
        for (int s = 0; s < VIEWS * K; ++s) {
            const long long line = s / K * m + (int)indices[s * (long long)n + row];
            f += weights[s * (long long)n + row] * P[line * C + column];
        }
        f = f > 0 ? f : REAL(0);
        F[i] = f;
        if (f == 0) continue;
        const double scaled = (double)f * unit;
        for (int s = 0; s < VIEWS * K; ++s) {
            const long long line = s / K * m + (int)indices[s * (long long)n + row];
            atomicAdd(sums + line * C + column, (Long)(weights[s * (long long)n + row] * scaled));
        }
    }
}
