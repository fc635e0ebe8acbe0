// What an iteration of Lloyd's algorithm on rows of many columns does between the products of a
// library: of the rows with the centres, and of the matrix of members with the rows. A run a column
// of blocks.
#include "block_sum.cuh"

// A one for the nearest centre of each row, the first of equal ones, and how many rows each has.
__device__ void find_members(
    const REAL* products, const REAL* norms, REAL* member, int* counts, int* mine, int n, int m
) {
    for (int j = threadIdx.x; j < m; j += THREADS) mine[j] = 0;
    __syncthreads();
    for (int row = blockIdx.x * THREADS + threadIdx.x; row < n; row += gridDim.x * THREADS) {
        const REAL* const line = products + (long long)row * m;
        int label = 0;
        REAL least = norms[0] - 2 * line[0];
        for (int j = 1; j < m; ++j) {
            const REAL distance = norms[j] - 2 * line[j];
            if (distance < least) least = distance, label = j;
        }
        for (int j = 0; j < m; ++j) member[(long long)row * m + j] = j == label;
        atomicAdd(mine + label, 1);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < m; j += THREADS)
        if (mine[j]) atomicAdd(counts + j, mine[j]);
}

// Each block moves its centre to the mean of its rows, unless the last moves were all small.
__device__ void move_centre(
    const REAL* sums, REAL* centres, REAL* norms, int* counts, double* moves, double* empty,
    double limit, double* parts, int number, int d, int m
) {
    const int j = blockIdx.x, count = counts[j];
    const double* const last = moves + (number + 1) % 2 * m;
    double moved = 0;
    for (int k = threadIdx.x; number > 1 && k < m; k += THREADS) moved += last[k];
    const bool goes_on = number == 1 || (number > 1 && block_sum(parts, moved) > limit);
    double square = 0, norm = 0;
    for (int i = threadIdx.x; i < d; i += THREADS) {
        REAL& place = centres[(long long)j * d + i];
        const REAL before = place;
        if (goes_on && count) place = sums[(long long)j * d + i] / count;
        square += double(place - before) * (place - before);
        norm += double(place) * place;
    }
    square = block_sum(parts, square), norm = block_sum(parts, norm);
    if (threadIdx.x > 0) return;
    moves[number % 2 * m + j] = square, norms[j] = REAL(norm);
    if (goes_on && !count) *empty = 1;
    counts[j] = 0;
}

// Number 0 is for the lengths of the centres alone.
extern "C" __global__ void __launch_bounds__(THREADS) wide(
    const REAL* products, REAL* member, const REAL* sums, REAL* centres, REAL* norms, int* counts,
    double* moves, double* empty, const double* limits, int n, int d, int m, int number, int moving
) {
    extern __shared__ unsigned char memory[];
    const long long run = blockIdx.y;
    norms += run * m, counts += run * m;
    if (moving)
        move_centre(
            sums + run * m * d, centres + run * m * d, norms, counts, moves + run * 2 * m, empty + run,
            limits[run], reinterpret_cast<double*>(memory), number, d, m
        );
    else
        find_members(
            products + run * n * m, norms, member + run * n * m, counts, reinterpret_cast<int*>(memory), n, m
        );
}
