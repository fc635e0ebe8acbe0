// What distances to the anchors of a view are made of, as in `method.graph.RelativeDistances`, a run
// a row of blocks: the mean of the anchors, then W and four sums for each anchor, then the bias.
#include "block_sum.cuh"

enum { OF_FEATURES, OF_ANCHORS, OF_RUN };  // what a block is there for, and its threads share
enum { SHIFT, AT_ORIGIN, SIZE, SPREAD, N_SUMS };

extern "C" __global__ void __launch_bounds__(THREADS) fold(
    const double* anchors, const double* factor, const double* centre, double* mean, REAL* origin,
    REAL* W, double* sums, REAL* bias, double* far, double* largest, double rounding, int d, int m, int stage
) {
    extern __shared__ unsigned char memory[];
    double* const parts = reinterpret_cast<double*>(memory);
    const long long run = blockIdx.y;
    anchors += run * m * d, W += run * m * d, mean += run * d, origin += run * d;
    sums += run * N_SUMS * m, bias += run * m;
    if (stage == OF_FEATURES) {
        const int i = blockIdx.x * THREADS + threadIdx.x;
        if (i >= d) return;
        double sum = 0;
        for (int j = 0; j < m; ++j) sum += anchors[(long long)j * d + i];
        mean[i] = sum /= m;
        // The row that is scaled to the mean.
        if (factor) sum = factor[i] > 0 ? sum / factor[i] : 0;
        origin[i] = REAL(centre ? sum + centre[i] : sum);
    } else if (stage == OF_ANCHORS) {
        const int j = blockIdx.x;
        double found[N_SUMS] = {};
        for (int i = threadIdx.x; i < d; i += THREADS) {
            const double anchor = anchors[(long long)j * d + i], middle = mean[i];
            const double twice = 2 * (middle - anchor), folded = factor ? twice * factor[i] : twice;
            W[(long long)i * m + j] = REAL(folded);
            found[SHIFT] -= 0.5 * (anchor + middle) * twice + (centre ? folded * centre[i] : 0);
            found[AT_ORIGIN] += folded * origin[i];
            found[SIZE] += fabs(folded * origin[i]);
            found[SPREAD] += twice * twice;
        }
        for (int s = 0; s < N_SUMS; ++s) {
            const double sum = block_sum(parts, found[s]);
            if (threadIdx.x == 0) sums[s * m + j] = sum;
        }
    } else {
        double size = 0, spread = 0, most = 0;
        for (int j = 0; j < m; ++j) size = fmax(size, sums[SIZE * m + j]);
        for (int j = 0; j < m; ++j) spread += sums[SPREAD * m + j] / m;
        const bool is_far = rounding * size > spread;
        for (int j = 0; j < m; ++j) {
            const REAL value = REAL(sums[SHIFT * m + j] + (is_far ? sums[AT_ORIGIN * m + j] : 0));
            most = fmax(most, fabs((double)value));
            if (j % THREADS == threadIdx.x) bias[j] = value;
        }
        if (threadIdx.x == 0) far[run] = is_far, largest[run] = most;
    }
}
