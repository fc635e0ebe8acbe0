// Rows of a view, those that are named, less a centre and times a factor for each feature: into
// columns of a matrix with `pitch` columns. Columns beyond a block's THREADS come in later turns.

#include "number.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) gather(
    const XT* __restrict__ X, const long long* __restrict__ rows, const double* __restrict__ centre,
    const double* __restrict__ factor, REAL* target, int n, int width, int row_stride, int column_stride, int pitch
) {
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        const XT* const row = X + (rows ? rows[i] : i) * row_stride;
        REAL* const to = target + (long long)i * pitch;
        for (int j = threadIdx.x; j < width; j += THREADS) {
            double x = number(row[(long long)j * column_stride]);
            if (centre) x -= centre[j];
            to[j] = REAL(factor ? x * factor[j] : x);
        }
    }
}
