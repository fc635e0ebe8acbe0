// Of each named row of a view how many values are not zero, how many are negative, and the sum of
// their squares: three numbers a row. A block a row.

#include "number.cuh"
#include "block_sum.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) facts(
    const XT* __restrict__ X, const long long* __restrict__ rows, double* found, int width, int row_stride,
    int column_stride
) {
    extern __shared__ unsigned char memory[];
    double* const parts = reinterpret_cast<double*>(memory);
    const XT* const row = X + rows[blockIdx.x] * row_stride;
    double values = 0, negative = 0, squares = 0;
    for (int j = threadIdx.x; j < width; j += THREADS) {
        const double x = number(row[(long long)j * column_stride]);
        values += x != 0, negative += x < 0, squares += x * x;
    }
    values = block_sum(parts, values), negative = block_sum(parts, negative), squares = block_sum(parts, squares);
    if (threadIdx.x > 0) return;
    double* const here = found + 3ll * blockIdx.x;
    here[0] = values, here[1] = negative, here[2] = squares;
}
