// A^(-1/2) of a symmetric m × m matrix by the steps of `method.roots`, in the shared memory of one
// block of THREADS threads.
constexpr int SIDE = 2;  // of the tile of a product that a thread works on
constexpr int MOST = (MOST_ROWS * MOST_ROWS / SIDE / SIDE + THREADS - 1) / THREADS;  // tiles of a thread

struct Tile {
    double x[SIDE][SIDE];
};

// Rows and columns of a tile are `apart`, so that neighbouring threads read neighbouring numbers;
// beyond the end they repeat the last.
__device__ Tile product(const double* L, const double* R, int m, int row, int column, int apart) {
    Tile sum = {};
    int rows[SIDE], columns[SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        rows[i] = min(row + i * apart, m - 1);
        columns[i] = min(column + i * apart, m - 1);
    }
    #pragma unroll 4
    for (int k = 0; k < m; ++k)
        #pragma unroll
        for (int i = 0; i < SIDE; ++i)
            #pragma unroll
            for (int j = 0; j < SIDE; ++j)
                sum.x[i][j] += L[rows[i] * m + k] * R[k * m + columns[j]];
    return sum;
}

// value(x, whether it is on the diagonal) goes where the tile says.
template <class Value>
__device__ void write(double* target, const Tile& tile, int m, int row, int column, int apart, Value value) {
    #pragma unroll
    for (int i = 0; i < SIDE; ++i)
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            const int r = row + i * apart, c = column + j * apart;
            if (r < m && c < m) target[r * m + c] = value(tile.x[i][j], r == c);
        }
}

// X becomes the root; Y and H are room for as many numbers. Returns whether it is right.
__device__ bool inverse_root(
    const double* A, double* X, double* Y, double* H, const double* steps, int n_steps, double close, int m
) {
    const int apart = (m + SIDE - 1) / SIDE, tiles = apart * apart;
    // No eigenvalue is larger than the largest sum of a row.
    for (int i = threadIdx.x; i < m; i += THREADS) {
        double sum = 0;
        for (int j = 0; j < m; ++j) sum += fabs(A[j * m + i]);
        H[i] = sum;
    }
    __syncthreads();
    double size = 0;
    for (int i = 0; i < m; ++i) size = fmax(size, H[i]);
    for (int i = threadIdx.x; i < m * m; i += THREADS) {
        X[i] = i / m == i % m;
        Y[i] = A[i] / size;
    }
    __syncthreads();
    bool right = true;
    for (int step = 0; step < n_steps; ++step) {
        const double linear = steps[2 * step], cubic = steps[2 * step + 1];
        right = true;
        for (int t = threadIdx.x; t < tiles; t += THREADS) {
            const int row = t / apart, column = t % apart;
            const Tile tile = product(X, Y, m, row, column, apart);
            write(H, tile, m, row, column, apart, [&](double x, bool same) {
                right = right && fabs(x - same) <= close;
                return linear * same - cubic * x;
            });
        }
        __syncthreads();
        Tile next_X[MOST], next_Y[MOST];
        #pragma unroll
        for (int turn = 0; turn < MOST; ++turn) {
            const int t = threadIdx.x + turn * THREADS;
            if (t >= tiles) continue;
            next_X[turn] = product(H, X, m, t / apart, t % apart, apart);
            next_Y[turn] = product(Y, H, m, t / apart, t % apart, apart);
        }
        __syncthreads();
        #pragma unroll
        for (int turn = 0; turn < MOST; ++turn) {
            const int t = threadIdx.x + turn * THREADS;
            if (t >= tiles) continue;
            auto value = [](double x, bool) { return x; };
            write(X, next_X[turn], m, t / apart, t % apart, apart, value);
            write(Y, next_Y[turn], m, t / apart, t % apart, apart, value);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < m * m; i += THREADS) X[i] /= sqrt(size);
    return __syncthreads_and(right);
}
