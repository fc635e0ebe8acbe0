// Products of the rows of a view with the anchors on the tensor cores, and the nearest anchors of
// each row while its products are in registers. Numbers are split in two of 11 bits each; what is
// left of them is no larger than the rounding of float32 products. Tensor cores truncate their sums:
// only those of 16 columns are left to them.
constexpr int WARP = 32, WARPS = THREADS / WARP, ROWS = 16 * BANDS, BLOCK_ROWS = WARPS * ROWS;
constexpr int LISTS = 2 * BANDS;  // rows that a lane has a share of

struct alignas(16) Four {
    unsigned x[4];
};

struct Nearest {
    float distance[K + 1], most, bad;  // most: of the sizes of the products; bad: NaN or 0
    int anchor[K + 1];
};

__device__ unsigned rounded(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }

// sums += a b for 16 rows, 8 columns of a and 8 of b.
__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float widened(unsigned short x) {
    float wide;
    if (X_KIND == 2) wide = __uint_as_float((unsigned)x << 16);
    else asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
}
__device__ float widened(float x) { return x; }

// Four neighbouring numbers of a row, zeros beyond its end.
__device__ void read_four(const XT* row, int column, int d, float (&x)[4]) {
    struct alignas(4 * sizeof(XT)) Pack {
        XT x[4];
    };
    Pack pack = {};
    if (ALIGNED) {
        if (column < d) pack = *reinterpret_cast<const Pack*>(row + column);
    } else {
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            if (column + i < d) pack.x[i] = row[column + i];
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = widened(pack.x[i]);
}

// Equal distances are in the order of their anchors.
__device__ void insert(Nearest& list, float distance, int anchor) {
    if (distance < list.distance[K] ||
        (distance == list.distance[K] && anchor < list.anchor[K])) {
        list.distance[K] = distance, list.anchor[K] = anchor;
        #pragma unroll
        for (int p = K; p > 0; --p) {
            const float d = list.distance[p], e = list.distance[p - 1];
            const int i = list.anchor[p], j = list.anchor[p - 1];
            const bool swap = d < e || (d == e && i < j);
            list.distance[p] = swap ? e : d, list.distance[p - 1] = swap ? d : e;
            list.anchor[p] = swap ? j : i, list.anchor[p - 1] = swap ? i : j;
        }
    }
}

// One of two lists is kept, the other goes to the lane that keeps it and comes back as its own.
__device__ Nearest exchanged(const Nearest& one, const Nearest& two, bool second, int step) {
    Nearest kept = second ? two : one;
    const Nearest sent = second ? one : two;
    #pragma unroll
    for (int p = 0; p <= K; ++p) {
        const float distance = __shfl_xor_sync(~0u, sent.distance[p], step);
        const int anchor = __shfl_xor_sync(~0u, sent.anchor[p], step);
        insert(kept, distance, anchor);
    }
    kept.most = fmaxf(kept.most, __shfl_xor_sync(~0u, sent.most, step));
    kept.bad += __shfl_xor_sync(~0u, sent.bad, step);
    return kept;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) nearest(
    const XT* __restrict__ X, const Four* __restrict__ anchors, const float* __restrict__ bias,
    INDEX* indices, float* weights,
    int n, int d, int m, int row_stride, int out_stride, int groups, double tie, double most_bias
) {
    extern __shared__ unsigned char memory[];
    Four* const staged = reinterpret_cast<Four*>(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int line = lane / 4, part = lane % 4, n_groups = (d + 15) / 16;
    const bool whole = groups >= n_groups;
    auto stage = [&](int first) {
        const int size = min(groups, n_groups - first) * TILES * 2 * WARP;
        __syncthreads();
        for (int i = threadIdx.x; i < size; i += THREADS)
            staged[i] = anchors[(long long)first * TILES * 2 * WARP + i];
        __syncthreads();
    };
    if (whole) stage(0);

    const long long step = (long long)gridDim.x * BLOCK_ROWS;
    for (long long block = (long long)blockIdx.x * BLOCK_ROWS; block < n; block += step) {
        const long long top = block + warp * ROWS;
        const XT* rows[LISTS];
        #pragma unroll
        for (int r = 0; r < LISTS; ++r) {
            const long long row = top + r * 8 + line;
            rows[r] = X + (row < n ? row : n - 1) * row_stride;
        }
        float sums[BANDS][TILES][4] = {}, next[LISTS][4];
        #pragma unroll
        for (int r = 0; r < LISTS; ++r) read_four(rows[r], 4 * part, d, next[r]);
        for (int group = 0; group < n_groups; ++group) {
            if (!whole && group % groups == 0) stage(group);
            unsigned high[BANDS][2][4], low[BANDS][2][4];
            #pragma unroll
            for (int r = 0; r < LISTS; ++r)
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    // Lane `part` has columns 4 part to 4 part + 3: two for each of two products.
                    const int place = r % 2 + i % 2 * 2;
                    const unsigned top_bits = rounded(next[r][i]);
                    high[r / 2][i / 2][place] = top_bits;
                    low[r / 2][i / 2][place] = rounded(next[r][i] - __uint_as_float(top_bits));
                }
            if (group + 1 < n_groups) {
                #pragma unroll
                for (int r = 0; r < LISTS; ++r)
                    read_four(rows[r], 16 * (group + 1) + 4 * part, d, next[r]);
            }
            const Four* const here = staged + group % groups * (TILES * 2 * WARP) + lane;
            #pragma unroll
            for (int t = 0; t < TILES; ++t) {
                float some[BANDS][4] = {};
                #pragma unroll
                for (int s = 0; s < 2; ++s) {
                    const Four b = here[(2 * t + s) * WARP];
                    #pragma unroll
                    for (int band = 0; band < BANDS; ++band) {
                        if (X_KIND == 0) multiply(some[band], low[band][s], b.x[0], b.x[1]);
                        multiply(some[band], high[band][s], b.x[2], b.x[3]);
                        multiply(some[band], high[band][s], b.x[0], b.x[1]);
                    }
                }
                #pragma unroll
                for (int band = 0; band < BANDS; ++band)
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) sums[band][t][i] += some[band][i];
            }
        }

        Nearest lists[LISTS];
        #pragma unroll
        for (int r = 0; r < LISTS; ++r) {
            Nearest& list = lists[r];
            list.most = list.bad = 0;
            #pragma unroll
            for (int p = 0; p <= K; ++p)
                list.distance[p] = __uint_as_float(0x7f800000u), list.anchor[p] = m - 1;  // infinity
            #pragma unroll
            for (int t = 0; t < TILES; ++t)
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int anchor = 8 * t + 2 * part + i;
                    const float product = sums[r / 2][t][r % 2 * 2 + i];
                    list.most = fmaxf(list.most, fabsf(product));
                    list.bad += product * 0.0f;  // NaN, if the product is not finite
                    if (anchor < m) insert(list, product + bias[anchor], anchor);
                }
        }
        const bool odd = part % 2, upper = part / 2;
        Nearest mine = exchanged(lists[0], lists[1], odd, 1);
        if (BANDS == 2) {
            const Nearest other = exchanged(lists[LISTS - 2], lists[LISTS - 1], odd, 1);
            mine = exchanged(mine, other, upper, 2);
        } else {
            mine = exchanged(mine, mine, upper, 2);
        }
        const long long row = top + (BANDS == 2 ? 16 * upper : 0) + 8 * odd + line;
        if (row < n && (BANDS == 2 || !upper)) {
            float total = 0;
            #pragma unroll
            for (int a = 0; a < K; ++a) total += mine.distance[K] - mine.distance[a];
            // Equal distances (duplicate points, all-zero rows): share the weight evenly.
            const bool tied = total <= float(tie) * fmaxf(mine.most, float(most_bias));
            #pragma unroll
            for (int a = 0; a < K; ++a) {
                const float share = (mine.distance[K] - mine.distance[a]) / total;
                indices[(long long)a * out_stride + row] = mine.anchor[a];
                weights[(long long)a * out_stride + row] = (tied ? 1.0f / K : share) + mine.bad;
            }
        }
    }
}
