// linear I + factor L R of m × m matrices, a tile of the result to a block; or that and at the same
// time other_L other_R. A step of `method.roots` is made of such products. The runs have matrices one
// after another; what says that they are right is so many numbers apart.
constexpr int THREADS = SIDE * SIDE, PITCH = DEPTH + 1;

extern "C" __global__ void __launch_bounds__(THREADS) root(
    const double* __restrict__ L, const double* __restrict__ R, double* result,
    const double* __restrict__ other_L, const double* __restrict__ other_R, double* other_result,
    double* right, double linear, double factor, double close, int m, int apart
) {
    extern __shared__ unsigned char memory[];
    double* const lines = reinterpret_cast<double*>(memory);  // of L
    double* const columns = lines + SIDE * PITCH;  // of R
    const int tiles = (m + SIDE - 1) / SIDE, tile = blockIdx.x % (tiles * tiles);
    const bool other = blockIdx.x >= tiles * tiles;
    if (other) L = other_L, R = other_R, result = other_result, linear = 0, factor = 1;
    const long long shift = (long long)blockIdx.y * m * m;
    L += shift, R += shift, result += shift;
    const int top = tile / tiles * SIDE, left = tile % tiles * SIDE;
    const int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;
    double sum = 0;
    for (int start = 0; start < m; start += DEPTH) {
        for (int i = threadIdx.x; i < SIDE * DEPTH; i += THREADS) {
            const int row = top + i / DEPTH, k = start + i % DEPTH;
            lines[i / DEPTH * PITCH + i % DEPTH] = row < m && k < m ? L[row * m + k] : 0.0;
            const int from = start + i / SIDE, column = left + i % SIDE;
            columns[i] = from < m && column < m ? R[from * m + column] : 0.0;
        }
        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < DEPTH; ++k) sum += lines[y * PITCH + k] * columns[k * SIDE + x];
        __syncthreads();
    }
    const int row = top + y, column = left + x;
    if (row >= m || column >= m) return;
    // Near its end a root has X Y near the identity.
    if (right && !other && !(fabs(sum - (row == column)) <= close)) right[blockIdx.y * apart] = 0;
    result[row * m + column] = linear * (row == column) + factor * sum;
}
