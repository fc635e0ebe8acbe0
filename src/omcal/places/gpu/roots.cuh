// A^(-1/2) of a symmetric C × C matrix by the steps of `method.roots`, in the shared memory of one
// block of THREADS threads.
constexpr int ENTRIES = C * C, TURNS_OF_ENTRIES = (ENTRIES + THREADS - 1) / THREADS;

__device__ double of_product(const double* L, const double* R, int row, int column) {
    double sum = 0;
    #pragma unroll 16
    for (int k = 0; k < C; ++k) sum += L[row * C + k] * R[k * C + column];
    return sum;
}

// X becomes the root; Y and H are room for as many numbers. At most 16 steps. Returns whether it is
// right.
__device__ bool inverse_root(
    const double* A, double* X, double* Y, double* H, const double* steps, int n_steps, double close
) {
    // A lane keeps one of the numbers: to fetch them in each step would take longer than the step.
    const double mine = steps[min((int)threadIdx.x % 32, 2 * n_steps - 1)];
    // No eigenvalue is larger than the largest sum of a row.
    for (int i = threadIdx.x; i < C; i += THREADS) {
        double sum = 0;
        #pragma unroll 4
        for (int j = 0; j < C; ++j) sum += fabs(A[j * C + i]);
        H[i] = sum;
    }
    __syncthreads();
    double size = 0;
    #pragma unroll 4
    for (int i = 0; i < C; ++i) size = fmax(size, H[i]);
    for (int i = threadIdx.x; i < ENTRIES; i += THREADS) {
        X[i] = i / C == i % C;
        Y[i] = A[i] / size;
    }
    __syncthreads();
    bool right = true;
    #pragma unroll 1
    for (int step = 0; step < n_steps; ++step) {
        const double linear = __shfl_sync(~0u, mine, 2 * step), cubic = __shfl_sync(~0u, mine, 2 * step + 1);
        right = true;
        #pragma unroll
        for (int turn = 0; turn < TURNS_OF_ENTRIES; ++turn) {
            const int i = threadIdx.x + turn * THREADS, same = i / C == i % C;
            if (i >= ENTRIES) continue;
            const double x = of_product(X, Y, i / C, i % C);
            right = right && fabs(x - same) <= close;
            H[i] = linear * same - cubic * x;
        }
        __syncthreads();
        double next_X[TURNS_OF_ENTRIES], next_Y[TURNS_OF_ENTRIES];
        #pragma unroll
        for (int turn = 0; turn < TURNS_OF_ENTRIES; ++turn) {
            const int i = min((int)threadIdx.x + turn * THREADS, ENTRIES - 1);
            next_X[turn] = of_product(H, X, i / C, i % C);
            next_Y[turn] = of_product(Y, H, i / C, i % C);
        }
        __syncthreads();
        #pragma unroll
        for (int turn = 0; turn < TURNS_OF_ENTRIES; ++turn) {
            const int i = threadIdx.x + turn * THREADS;
            if (i < ENTRIES) X[i] = next_X[turn], Y[i] = next_Y[turn];
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < ENTRIES; i += THREADS) X[i] /= sqrt(size);
    return __syncthreads_and(right);
}
