// Compute products of m × m matrices in order: linear I + factor L R, then other_L other_R if given. A
// step of `method.roots` consists of such products. A block has a tile of each result; if all blocks are
// resident, one launch does all products, with a barrier between two. Matrices of the runs are stored one
// after another; their flags `right` are `apart` numbers apart.
constexpr int THREADS = SIDE * SIDE, PITCH = DEPTH + 1;
constexpr int GROUPS = 4;  // of threads, with 2 × 2 entries each and every fourth of their products

struct Product {
    const double *L, *R;
    double* result;
    const double *other_L, *other_R;
    double* other_result;
    double* right;
    double linear, factor;
};

// Return an entry of the tile of L R. Loads bypass the L1 cache, which does not see the writes of other
// multiprocessors.
__device__ double entry(const double* L, const double* R, double* room, int top, int left, int m) {
    double* const lines = room;  // of L
    double* const columns = lines + SIDE * PITCH;  // of R
    double* const parts = columns + DEPTH * SIDE;
    const int t = threadIdx.x, along = t / SIDE, across = t % SIDE;
    const int group = t / (THREADS / GROUPS), pair = t % (THREADS / GROUPS);
    const int y = pair / (SIDE / 2) * 2, x = pair % (SIDE / 2) * 2;
    double sums[4] = {};
    for (int start = 0; start < m; start += DEPTH) {
        double of_L[DEPTH / SIDE], of_R[DEPTH / SIDE];
        #pragma unroll
        for (int i = 0; i < DEPTH / SIDE; ++i) {
            const int k = start + i * SIDE, row = top + along, column = left + across;
            of_L[i] = row < m && k + across < m ? __ldcg(L + row * m + k + across) : 0.0;
            of_R[i] = column < m && k + along < m ? __ldcg(R + (k + along) * m + column) : 0.0;
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < DEPTH / SIDE; ++i) {
            lines[along * PITCH + i * SIDE + across] = of_L[i];
            columns[i * THREADS + t] = of_R[i];
        }
        __syncthreads();
        const int stop = m - start < DEPTH ? m - start : DEPTH;
        #pragma unroll 8
        for (int k = group; k < stop; k += GROUPS) {
            const double a = lines[y * PITCH + k], b = lines[(y + 1) * PITCH + k];
            const double c = columns[k * SIDE + x], d = columns[k * SIDE + x + 1];
            sums[0] += a * c, sums[1] += a * d, sums[2] += b * c, sums[3] += b * d;
        }
    }
    for (int i = 0; i < 4; ++i) parts[group * THREADS + (y + i / 2) * SIDE + x + i % 2] = sums[i];
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < GROUPS; ++i) sum += parts[i * THREADS + t];
    return sum;
}

// Barrier of all blocks of a run; `arrived` counts them.
__device__ void wait_for_all(int* arrived, int number) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile int*)arrived < number) {}
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) root(
    const Product* plan, int* arrived, int first, int last, double close, int m, int apart
) {
    extern __shared__ unsigned char memory[];
    double* const room = reinterpret_cast<double*>(memory);
    const int tiles = (m + SIDE - 1) / SIDE, blocks = tiles * tiles;
    const int top = blockIdx.x / tiles * SIDE, left = blockIdx.x % tiles * SIDE;
    const int row = top + threadIdx.x / SIDE, column = left + threadIdx.x % SIDE;
    const bool inside = row < m && column < m, same = row == column;
    const long long shift = (long long)blockIdx.y * m * m, here = shift + (long long)row * m + column;
    arrived += blockIdx.y;
    for (int number = first; number < last; ++number) {
        const Product p = plan[number];
        const double sum = entry(p.L + shift, p.R + shift, room, top, left, m);
        // Near its end a root has X Y near the identity.
        if (inside && p.right && !(fabs(sum - same) <= close)) p.right[blockIdx.y * apart] = 0;
        if (inside) p.result[here] = p.linear * same + p.factor * sum;
        if (p.other_L) {
            const double other = entry(p.other_L + shift, p.other_R + shift, room, top, left, m);
            if (inside) p.other_result[here] = other;
        }
        if (number + 1 < last) wait_for_all(arrived, blocks * (number + 1 - first));
    }
    if (last - first > 1 && threadIdx.x == 0 && atomicAdd(arrived, 1) == blocks * (last - first) - 1)
        *arrived = 0;
}
