// B with K B the coordinates of centres in their span, for their inner products K: eigenvectors of K
// over the roots of its eigenvalues; zeros for eigenvalues that are rounding. A block has its own K.
#include "eigen.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) basis(
    const REAL* K, REAL* B, double rounding, int m
) {
    extern __shared__ unsigned char memory[];
    const int side = m + m % 2;
    K += (long long)blockIdx.x * m * m, B += (long long)blockIdx.x * m * m;
    double* const A = reinterpret_cast<double*>(memory);
    double* const Q = A + side * side;
    double* const turns = Q + side * side;
    double* const sizes = turns + side;
    for (int i = threadIdx.x; i < m; i += THREADS) {
        double sum = 0;
        for (int j = 0; j < m; ++j) sum += fabs((double)K[j * m + i]);
        sizes[i] = sum;
    }
    __syncthreads();
    double size = 0;
    for (int i = 0; i < m; ++i) size = fmax(size, sizes[i]);
    for (int i = threadIdx.x; i < side * side; i += THREADS) {
        const int row = i / side, column = i % side;
        A[i] = row < m && column < m && size > 0 ? K[row * m + column] / size : 0.0;
        Q[i] = row == column;
    }
    __syncthreads();
    diagonalise(A, Q, turns, turns + side / 2, side);
    double largest = 0;
    for (int k = 0; k < m; ++k) largest = fmax(largest, A[k * side + k]);
    for (int i = threadIdx.x; i < m * m; i += THREADS) {
        const double value = A[i % m * (side + 1)];
        B[i] = value > rounding * largest ? REAL(Q[i / m * side + i % m] / sqrt(value * size)) : REAL(0);
    }
}
