// Eigenvalues and eigenvectors of a symmetric matrix by Jacobi's rotations, in the shared memory of
// one block of THREADS threads. In each step every row is in one pair, as in a tournament.
constexpr int MOST_SWEEPS = 20;
constexpr double NEGLIGIBLE = 1e-15;  // entries beside the diagonal of a matrix of size 1

// The two rows of pair k in a step, for an even number of rows.
__device__ void rows_of_pair(int k, int step, int side, int& i, int& j) {
    const int others = side - 1, up = step + k, down = step - k;
    i = up < others ? up : up - others;
    j = k == 0 ? others : down < 0 ? down + others : down;
}

// A becomes diagonal: Q'AQ. Q is given, and turned along; no eigenvalue may be larger than 1 in size.
// `side` is even, a row and column of zeros may help out. Returns whether it has converged.
__device__ bool diagonalise(double* A, double* Q, double* cosines, double* sines, int side) {
    const int pairs = side / 2;
    // As many lanes as a power of two that is enough for the pairs, to a row of them.
    const int lanes = pairs <= 16 ? 16 : 32;
    const int lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = THREADS / lanes;
    for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
        bool moved = false;
        for (int step = 0; step < side - 1; ++step) {
            bool turns = false;
            for (int k = threadIdx.x; k < pairs; k += THREADS) {
                int i, j;
                rows_of_pair(k, step, side, i, j);
                const double beside = A[i * side + j], apart = A[j * side + j] - A[i * side + i];
                double c = 1, s = 0;
                if (fabs(beside) > NEGLIGIBLE) {
                    // An angle of 24 bits is enough; that it is a rotation has to be exact.
                    const float x = float(apart), y = 2 * float(beside);
                    const double tangent = y / (x + copysignf(sqrtf(x * x + y * y), x));
                    c = 1 / sqrt(1 + tangent * tangent), s = tangent * c;
                    turns = true;
                }
                cosines[k] = c, sines[k] = s;
            }
            if (__syncthreads_and(!turns)) continue;
            moved = true;
            for (int row = group; row < pairs + side; row += groups) {
                for (int k = lane; k < pairs; k += lanes) {
                    int i, j;
                    rows_of_pair(k, step, side, i, j);
                    const double c = cosines[k], s = sines[k];
                    if (row >= pairs) {
                        double* const line = Q + (row - pairs) * side;
                        const double x = line[i], y = line[j];
                        line[i] = c * x - s * y, line[j] = s * x + c * y;
                        continue;
                    }
                    int upper, lower;
                    rows_of_pair(row, step, side, upper, lower);
                    const double C2 = cosines[row], S2 = sines[row];
                    double *const up = A + upper * side, *const down = A + lower * side;
                    const double xu = c * up[i] - s * up[j], yu = s * up[i] + c * up[j];
                    const double xd = c * down[i] - s * down[j], yd = s * down[i] + c * down[j];
                    up[i] = C2 * xu - S2 * xd, up[j] = C2 * yu - S2 * yd;
                    down[i] = S2 * xu + C2 * xd, down[j] = S2 * yu + C2 * yd;
                }
            }
            __syncthreads();
        }
        if (!moved) return true;
    }
    return false;
}
