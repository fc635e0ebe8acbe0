// Compute A^(-1/2) or the sign of a symmetric matrix by the steps of `batched_roots.py`, in the shared memory of
// one block of THREADS threads. Matrices have SIDE rows and columns, of the identity beyond their own, in tiles of
// 8 × 8 numbers: tensor cores multiply them, one tile per warp.
constexpr int TILE = 8, DEEP = 4, MOST_STEPS = 30;
constexpr double NEARLY_ONE = 1e-8;  // the step from here is off by its square
constexpr double GAP = 1e-8;  // size of an eigenvalue whose sign is found

constexpr __device__ int whole_tiles(int n) { return (n + TILE - 1) / TILE * TILE; }
// Row length for which the lanes of a warp read from different banks.
constexpr __device__ int pitch(int side) { return side + DEEP; }

// Add the product of an 8 × 4 and a 4 × 8 tile, one number of each per lane, to the tile of sums.
__device__ void multiply_add(double (&sums)[2], double a, double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // before tensor cores took such numbers
    for (int k = 0; k < DEEP; ++k) {
        const double left = __shfl_sync(~0u, a, threadIdx.x % WARP / 4 * 4 + k);
        for (int i = 0; i < 2; ++i)
            sums[i] += left * __shfl_sync(~0u, b, (threadIdx.x % 4 * 2 + i) * 4 + k);
    }
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(sums[0]), "+d"(sums[1]) : "d"(a), "d"(b));
#endif
}

// Return the position of the two adjacent numbers of this lane in a tile.
template <int SIDE>
__device__ int place_in(int tile) {
    constexpr int ACROSS = SIDE / TILE;
    const int row = tile / ACROSS * TILE + threadIdx.x % WARP / 4, column = tile % ACROSS * TILE + threadIdx.x % 4 * 2;
    return row * pitch(SIDE) + column;
}

// Compute these two numbers of L R.
template <int SIDE>
__device__ void tile_of_product(const double* L, const double* R, int tile, double (&sums)[2]) {
    constexpr int ACROSS = SIDE / TILE, PITCH = pitch(SIDE);
    const int lane = threadIdx.x % WARP;
    L += (tile / ACROSS * TILE + lane / 4) * PITCH + lane % 4;
    R += lane % 4 * PITCH + tile % ACROSS * TILE + lane / 4;
    double others[2] = {};  // an addition has to wait for the one before: two sums at a time
    sums[0] = sums[1] = 0;
    #pragma unroll 4
    for (int k = 0; k < SIDE; k += 2 * DEEP) {
        multiply_add(sums, L[k], R[k * PITCH]);
        multiply_add(others, L[k + DEEP], R[(k + DEEP) * PITCH]);
    }
    sums[0] += others[0], sums[1] += others[1];
}

// Return the largest row sum of the n × n matrix A, a bound of its eigenvalues. `room` is for n numbers.
__device__ double largest_sum(const double* A, int n, double* room) {
    for (int i = threadIdx.x; i < n; i += THREADS) {
        double sum = 0;
        #pragma unroll 4
        for (int j = 0; j < n; ++j) sum += fabs(A[j * n + i]);
        room[i] = sum;
    }
    __syncthreads();
    double size = 0;
    #pragma unroll 4
    for (int i = 0; i < n; ++i) size = fmax(size, room[i]);
    __syncthreads();
    return size;
}

// Replace X by (linear I - cubic XY) X and, if it is another matrix, Y by Y (linear I - cubic XY), until XY is
// nearly I; return whether it is. Eigenvalues of XY usually lie between the square of `least` and 1. H is room.
template <int SIDE, bool ALONE>
__device__ bool iterate(double* X, double* Y, double* H, double least) {
    constexpr int PITCH = pitch(SIDE), TILES = SIDE / TILE * (SIDE / TILE), PARTS = ALONE ? TILES : 2 * TILES;
    constexpr int JOBS = (PARTS + WARPS - 1) / WARPS;
    const int warp = threadIdx.x / WARP;
    bool near = false;
    #pragma unroll 1
    for (int step = 0; step < MOST_STEPS && !near; ++step) {
        bool mine_near = true;
        #pragma unroll 1
        for (int tile = warp; tile < TILES; tile += WARPS) {
            double sums[2];
            tile_of_product<SIDE>(X, Y, tile, sums);
            const int place = place_in<SIDE>(tile), row = place / PITCH, column = place % PITCH;
            for (int i = 0; i < 2; ++i) {
                mine_near = mine_near && fabs(sums[i] - (row == column + i)) <= NEARLY_ONE;
                H[place + i] = sums[i];
            }
        }
        near = __syncthreads_and(mine_near);
        const bool last = near || 1 - least <= NEARLY_ONE;
        const double scale = last ? 1.0 : sqrt(3 / (1 + least + least * least));
        const double linear = 1.5 * scale, cubic = 0.5 * scale * scale * scale;
        least *= linear - cubic * least * least;
        // Written when all warps have read X and Y.
        double next[JOBS][2];
        #pragma unroll
        for (int turn = 0; turn < JOBS; ++turn) {
            const int job = warp + turn * WARPS;
            if (job >= PARTS) continue;
            const int tile = job % TILES, place = place_in<SIDE>(tile);
            const double* const old = job < TILES ? X : Y;
            if (job < TILES) tile_of_product<SIDE>(H, X, tile, next[turn]);
            else tile_of_product<SIDE>(Y, H, tile, next[turn]);
            for (int i = 0; i < 2; ++i) next[turn][i] = linear * old[place + i] - cubic * next[turn][i];
        }
        __syncthreads();
        #pragma unroll
        for (int turn = 0; turn < JOBS; ++turn) {
            const int job = warp + turn * WARPS;
            if (job >= PARTS) continue;
            double* const target = (job < TILES ? X : Y) + place_in<SIDE>(job % TILES);
            target[0] = next[turn][0], target[1] = next[turn][1];
        }
        __syncthreads();
    }
    return near;
}

// Write the n × n matrix A / size, with the identity beyond, to X.
template <int SIDE>
__device__ void pad(const double* A, int n, double size, double* X) {
    #pragma unroll 1
    for (int i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
        const int row = i / SIDE, column = i % SIDE;
        const bool there = row < n && column < n;
        X[row * pitch(SIDE) + column] = there ? A[row * n + column] / size : double(row == column);
    }
    __syncthreads();
}

// Write the inverse root of the n × n matrix A with eigenvalues up to `size` to X, which has room for three
// matrices, the last of which may be A. Return whether it has converged.
template <int SIDE>
__device__ bool inverse_root(const double* A, int n, double size, double* X, double least) {
    constexpr int PITCH = pitch(SIDE);
    double *const Y = X + SIDE * PITCH, *const H = Y + SIDE * PITCH;
    pad<SIDE>(A, n, size, Y);
    for (int i = threadIdx.x; i < SIDE * PITCH; i += THREADS) X[i] = i % (PITCH + 1) == 0;
    __syncthreads();
    const bool near = iterate<SIDE, false>(X, Y, H, least);
    const double scale = 1 / sqrt(size);
    for (int i = threadIdx.x; i < SIDE * PITCH; i += THREADS) X[i] *= scale;
    __syncthreads();
    return near;
}
