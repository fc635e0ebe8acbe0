// An iteration of Lloyd's algorithm on rows of few columns, in two launches: each block adds up its
// own rows by their nearest centres, then each thread adds up one entry of the centres. Arrays of the
// runs are stored one after another. Without it, one run of 60000 × 1430 takes 1.28 times as long,
// ten joined runs 1.39 (benchmarks/ablations_gpu.py).
#include "block_sum.cuh"

constexpr int GROUPS = THREADS / ROWS;  // of centres, for the threads of a row
constexpr int AT_ONCE = 8;  // centres

struct alignas(4 * sizeof(REAL)) Four {
    REAL x[4];
};

__device__ void add_up_rows(
    const REAL* __restrict__ X, const REAL* __restrict__ centres, REAL* sums_of_blocks,
    REAL* memory, int n, int d, int m
) {
    const int pitch = (m + AT_ONCE - 1) / AT_ONCE * AT_ONCE;  // of the transposed centres
    REAL* const turned = memory;
    REAL* const norms = turned + d * pitch;
    REAL* const sums = norms + pitch;  // and, in the last column, counts
    REAL* const rows = sums + m * (d + 1);
    REAL* const least = rows + ROWS * (d + 1);
    int* const labels = reinterpret_cast<int*>(least + THREADS);
    for (int i = threadIdx.x; i < d * pitch; i += THREADS)
        turned[i] = i % pitch < m ? centres[i % pitch * d + i / pitch] : REAL(0);
    for (int i = threadIdx.x; i < m * (d + 1); i += THREADS) sums[i] = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < pitch; j += THREADS) {
        REAL norm = 0;
        for (int k = 0; k < d; ++k) norm += turned[k * pitch + j] * turned[k * pitch + j];
        norms[j] = norm;
    }

    const int share = (n + gridDim.x - 1) / gridDim.x;
    const int stop = min((int)(blockIdx.x + 1) * share, n);
    const int row = threadIdx.x % ROWS, group = threadIdx.x / ROWS;
    for (int top = blockIdx.x * share; top < stop; top += ROWS) {
        const int there = min(ROWS, stop - top);
        for (int i = threadIdx.x; i < there * d; i += THREADS)
            rows[i / d * (d + 1) + i % d] = X[(long long)top * d + i];
        __syncthreads();
        REAL best = 0;
        int label = -1;
        for (int j = group * AT_ONCE; row < there && j < m; j += GROUPS * AT_ONCE) {
            REAL products[AT_ONCE] = {};
            for (int k = 0; k < d; ++k) {
                const REAL x = rows[row * (d + 1) + k];
                #pragma unroll
                for (int i = 0; i < AT_ONCE; i += 4) {
                    const Four four = *reinterpret_cast<const Four*>(turned + k * pitch + j + i);
                    #pragma unroll
                    for (int q = 0; q < 4; ++q) products[i + q] += x * four.x[q];
                }
            }
            #pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                const REAL distance = norms[j + i] - 2 * products[i];
                if (j + i < m && (label < 0 || distance < best)) best = distance, label = j + i;
            }
        }
        least[threadIdx.x] = best;
        labels[threadIdx.x] = label;
        __syncthreads();
        if (group == 0 && row < there) {
            for (int g = 1; g < GROUPS; ++g) {
                const REAL other = least[g * ROWS + row];
                const int its = labels[g * ROWS + row];
                // Ties go to the first centre.
                if (its >= 0 && (other < best || (other == best && its < label))) best = other, label = its;
            }
            labels[row] = label;
            rows[row * (d + 1) + d] = 1;
        }
        __syncthreads();
        for (int column = threadIdx.x; column <= d; column += THREADS)
            for (int r = 0; r < there; ++r) sums[labels[r] * (d + 1) + column] += rows[r * (d + 1) + column];
        __syncthreads();
    }
    REAL* const mine = sums_of_blocks + (long long)blockIdx.x * m * (d + 1);
    for (int i = threadIdx.x; i < m * (d + 1); i += THREADS) mine[i] = sums[i];
}

// `moves` holds the squares by which entries of the centres moved last, added up by the threads of
// each of the n_movers blocks; then whether they still move, and whether a cluster was empty.
extern "C" __global__ void __launch_bounds__(THREADS) lloyd(
    const REAL* __restrict__ X, REAL* centres, REAL* sums_of_blocks, double* moves,
    const double* __restrict__ limit, int n, int d, int m, int n_blocks, int n_movers, int adds_up
) {
    extern __shared__ unsigned char memory[];
    const int run = blockIdx.y;
    X += (long long)run * n * d;
    centres += (long long)run * m * d;
    sums_of_blocks += (long long)run * n_blocks * m * (d + 1);
    moves += run * (n_movers + 2);
    limit += run;
    double* const goes_on = moves + n_movers;
    double* const empty = goes_on + 1;
    if (adds_up) {
        double moved = 0;
        for (int i = 0; i < n_movers; ++i) moved += moves[i];
        if (blockIdx.x == 0 && threadIdx.x == 0) *goes_on = moved > *limit;
        if (moved > *limit)
            add_up_rows(X, centres, sums_of_blocks, reinterpret_cast<REAL*>(memory), n, d, m);
        return;
    }
    if (!*goes_on) return;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    double change = 0;
    if (i < m * d) {
        double sum = 0, count = 0;
        for (int b = 0; b < n_blocks; ++b) {
            const REAL* const of_block = sums_of_blocks + ((long long)b * m + i / d) * (d + 1);
            sum += of_block[i % d], count += of_block[d];
        }
        if (count == 0) *empty = 1;
        const REAL mean = count == 0 ? centres[i] : REAL(sum / count);
        change = mean - centres[i];
        centres[i] = mean;
    }
    const double total = block_sum(reinterpret_cast<double*>(memory), change * change);
    if (threadIdx.x == 0) moves[blockIdx.x] = total;
}
