// Compute eigenvalues and eigenvectors of a symmetric matrix by Jacobi's rotations, in the shared memory of
// one block of THREADS threads. In each step every row is in one pair, as in a tournament.
constexpr int MOST_SWEEPS = 20;
constexpr double NEGLIGIBLE = 1e-15;  // entries beside the diagonal of a matrix of size 1

// Return the two rows of pair k in a step, for an even number of rows.
__device__ void rows_of_pair(int k, int step, int side, int& i, int& j) {
    const int others = side - 1, up = step + k, down = step - k;
    i = up < others ? up : up - others;
    j = k == 0 ? others : down < 0 ? down + others : down;
}

// Return cosine and sine of the angle that brings `beside` to zero, for the difference of the two entries on
// the diagonal. The angle needs 20 bits only; that it is a rotation has to be exact.
__device__ void rotation(double apart, double beside, double& c, double& s) {
    const float x = float(apart), y = 2 * float(beside), squares = x * x + y * y;
    const double tangent = y / (x + copysignf(squares * rsqrtf(squares), x));
    c = rsqrt(1 + tangent * tangent), s = tangent * c;
}

// Make A diagonal, Q'AQ, and update the given Q; no eigenvalue may be larger than 1 in size. `side` is
// even: pad with a row and column of zeros. Return whether it has converged.
__device__ bool diagonalise(double* A, double* Q, double* cosines, double* sines, int side) {
    const int pairs = side / 2, folded = (pairs + 1) / 2;
    // A power of two of lanes per row of pairs and one more avoids divisions.
    int lanes = 1;
    while (lanes < pairs + 1 && lanes < THREADS) lanes *= 2;
    const int lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = THREADS / lanes;
    #pragma unroll 1
    for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
        bool moved = false;
        #pragma unroll 1
        for (int step = 0; step < side - 1; ++step) {
            bool turns = false;
            #pragma unroll 1
            for (int k = threadIdx.x; k < pairs; k += THREADS) {
                int i, j;
                rows_of_pair(k, step, side, i, j);
                const double beside = A[i * side + j];
                double c = 1, s = 0;
                if (fabs(beside) > NEGLIGIBLE) {
                    rotation(A[j * side + j] - A[i * side + i], beside, c, s);
                    turns = true;
                }
                cosines[k] = c, sines[k] = s;
            }
            if (__syncthreads_and(!turns)) continue;
            moved = true;
            #pragma unroll 1
            for (int row = group; row < folded + pairs; row += groups) {
                #pragma unroll 1
                for (int k = lane; k <= pairs; k += lanes) {
                    if (row >= folded) {  // two rows of Q
                        if (k == pairs) continue;
                        int i, j;
                        rows_of_pair(k, step, side, i, j);
                        const double c = cosines[k], s = sines[k];
                        double* const line = Q + 2 * (row - folded) * side;
                        const double x = line[i], y = line[j], u = line[side + i], v = line[side + j];
                        line[i] = c * x - s * y, line[j] = s * x + c * y;
                        line[side + i] = c * u - s * v, line[side + j] = s * u + c * v;
                        continue;
                    }
                    // Rows of the triangle of pairs of pairs, the last behind the first.
                    const int a = k > row ? row : pairs - 1 - row, b = k > row ? k - 1 : pairs - 1 - k;
                    if (k <= row && 2 * row + 1 == pairs) continue;  // the middle one is alone
                    int i, j, p, q;
                    rows_of_pair(a, step, side, p, q);
                    rows_of_pair(b, step, side, i, j);
                    const double c = cosines[b], s = sines[b], d = cosines[a], t = sines[a];
                    const double pi = A[p * side + i], pj = A[p * side + j];
                    const double qi = A[q * side + i], qj = A[q * side + j];
                    const double up = c * pi - s * pj, vp = s * pi + c * pj;
                    const double uq = c * qi - s * qj, vq = s * qi + c * qj;
                    A[p * side + i] = A[i * side + p] = d * up - t * uq;
                    A[p * side + j] = A[j * side + p] = d * vp - t * vq;
                    A[q * side + i] = A[i * side + q] = t * up + d * uq;
                    A[q * side + j] = A[j * side + q] = t * vp + d * vq;
                }
            }
            __syncthreads();
        }
        if (!moved) return true;
    }
    return false;
}
