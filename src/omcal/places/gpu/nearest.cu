// Products of the rows of a view with the anchors on the tensor cores, and the nearest anchors of
// each row while its products are in registers. Numbers are split into two parts of 11 bits; the
// remainder is no larger than the rounding of float32 products. Tensor cores truncate their sums, so
// they add up 16 columns at most.
#include "number.cuh"

constexpr int WARP = 32, ROWS = 16, BLOCK_ROWS = THREADS / WARP * ROWS;
constexpr int LISTS = 2;  // rows per lane
constexpr int AT_ONCE = 4;  // tiles of anchors

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

// Four neighbouring numbers of a row, zeros where fewer are left of it.
__device__ void read_four(const XT* row, int left, float (&x)[4]) {
    struct alignas(4 * sizeof(XT)) Pack {
        XT x[4];
    };
    Pack pack = {};
    if (ALIGNED) {
        if (left > 0) pack = *reinterpret_cast<const Pack*>(row);
    } else {
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i < left) pack.x[i] = row[i];
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = (float)number(pack.x[i]);
}

// Equal distances are in the order of their anchors, which a lane meets in that order: only where
// lists are joined do the anchors have to be looked at.
template <bool JOINS>
__device__ bool before(float d, int i, float e, int j) {
    return d < e || (JOINS && d == e && i < j);
}

template <bool JOINS>
__device__ void insert(Nearest& list, float distance, int anchor) {
    #pragma unroll
    for (int p = K; p > 0; --p) {
        // Insertion: the neighbour moves up while the new entry comes before it.
        const float d = list.distance[p - 1];
        const int j = list.anchor[p - 1];
        const bool moves = before<JOINS>(distance, anchor, d, j);
        const bool stays = !before<JOINS>(distance, anchor, list.distance[p], list.anchor[p]);
        list.distance[p] = moves ? d : stays ? list.distance[p] : distance;
        list.anchor[p] = moves ? j : stays ? list.anchor[p] : anchor;
    }
    const bool first = before<JOINS>(distance, anchor, list.distance[0], list.anchor[0]);
    list.distance[0] = first ? distance : list.distance[0];
    list.anchor[0] = first ? anchor : list.anchor[0];
}

// One of two lists is kept, the other goes to the lane that keeps it and comes back as its own.
__device__ Nearest exchanged(const Nearest& one, const Nearest& two, bool second, int step) {
    Nearest kept = second ? two : one;
    const Nearest sent = second ? one : two;
    #pragma unroll
    for (int p = 0; p <= K; ++p) {
        const float distance = __shfl_xor_sync(~0u, sent.distance[p], step);
        const int anchor = __shfl_xor_sync(~0u, sent.anchor[p], step);
        insert<true>(kept, distance, anchor);
    }
    kept.most = fmaxf(kept.most, __shfl_xor_sync(~0u, sent.most, step));
    kept.bad += __shfl_xor_sync(~0u, sent.bad, step);
    return kept;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) nearest(
    const XT* __restrict__ X, const float* __restrict__ W, const float* __restrict__ bias,
    const float* __restrict__ most_bias, INDEX* indices, float* weights,
    int n, int d, int m, int row_stride, int out_stride, int runs_apart, int groups, double tie
) {
    const long long run = blockIdx.y;  // those of the same rows run at the same time: the cache has them
    W += run * d * m, bias += run * m;
    indices += run * runs_apart, weights += run * runs_apart;
    extern __shared__ unsigned char memory[];
    Four* const staged = reinterpret_cast<Four*>(memory);
    // Places beyond the last anchor are infinitely far away.
    float* const padded_bias = reinterpret_cast<float*>(staged + groups * TILES * 2 * WARP);
    for (int i = threadIdx.x; i < TILES * 8; i += THREADS)
        padded_bias[i] = i < m ? bias[i] : __uint_as_float(0x7f800000u);
    __syncthreads();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int line = lane / 4, part = lane % 4, n_groups = (d + 15) / 16;
    const bool whole = groups >= n_groups;
    // Rows 16 g to 16 g + 15 of W as the lanes take them, in two parts of 11 bits: lanes with the
    // same place among four have four rows, two for each of two products.
    auto number = [&](int row, int column) {
        return row < d && column < m ? W[(long long)row * m + column] : 0.0f;
    };
    auto stage = [&](int first) {
        const int size = min(groups, n_groups - first) * TILES * 2 * WARP;
        __syncthreads();
        for (int i = threadIdx.x; i < size; i += THREADS) {
            const int group = first + i / (TILES * 2 * WARP), tile = i / (2 * WARP) % TILES;
            const int row = 16 * group + 4 * (i % 4) + i / WARP % 2 * 2;
            const int column = 8 * tile + i % WARP / 4;
            const float one = number(row, column), two = number(row + 1, column);
            const unsigned high_one = rounded(one), high_two = rounded(two);
            staged[i] = {{
                high_one, high_two,
                rounded(one - __uint_as_float(high_one)), rounded(two - __uint_as_float(high_two)),
            }};
        }
        __syncthreads();
    };
    if (whole) stage(0);

    const long long step = (long long)gridDim.x * BLOCK_ROWS;
    const XT* rows[LISTS];
    float next[LISTS][4];
    auto read_next = [&](int group) {
        #pragma unroll
        for (int r = 0; r < LISTS; ++r)
            read_four(rows[r] + 16 * group, d - 4 * part - 16 * group, next[r]);
    };
    auto begin = [&](long long block) {
        #pragma unroll
        for (int r = 0; r < LISTS; ++r) {
            const long long row = min(block + warp * ROWS + r * 8 + line, (long long)n - 1);
            rows[r] = X + row * row_stride + 4 * part;
        }
        read_next(0);
    };
    begin((long long)blockIdx.x * BLOCK_ROWS);
    for (long long block = (long long)blockIdx.x * BLOCK_ROWS; block < n; block += step) {
        float sums[TILES][4] = {};
        const Four* here = staged + lane;
        #pragma unroll 2
        for (int group = 0; group < n_groups; ++group) {
            if (!whole && group % groups == 0) stage(group), here = staged + lane;
            unsigned high[2][4], low[2][4];
            #pragma unroll
            for (int r = 0; r < LISTS; ++r)
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    // Lane `part` has columns 4 part to 4 part + 3: two for each of two products.
                    const int place = r + i % 2 * 2;
                    const unsigned top_bits = rounded(next[r][i]);
                    high[i / 2][place] = top_bits;
                    low[i / 2][place] = rounded(next[r][i] - __uint_as_float(top_bits));
                }
            if (group + 1 < n_groups) read_next(group + 1);
            // Several sums side by side: each has to wait for its last product.
            #pragma unroll
            for (int t = 0; t < TILES; t += AT_ONCE) {
                float some[AT_ONCE][4] = {};
                Four b[AT_ONCE];
                auto multiply_all = [&](const unsigned (&a)[4], int half) {
                    #pragma unroll
                    for (int u = 0; u < AT_ONCE; ++u)
                        if (t + u < TILES) multiply(some[u], a, b[u].x[half], b[u].x[half + 1]);
                };
                #pragma unroll
                for (int s = 0; s < 2; ++s) {
                    #pragma unroll
                    for (int u = 0; u < AT_ONCE; ++u)
                        if (t + u < TILES) b[u] = here[(2 * (t + u) + s) * WARP];
                    if (X_KIND == 0) multiply_all(low[s], 0);
                    multiply_all(high[s], 2);
                    multiply_all(high[s], 0);
                }
                #pragma unroll
                for (int u = 0; u < AT_ONCE; ++u)
                    #pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (t + u < TILES) sums[t + u][i] += some[u][i];
            }
            here += TILES * 2 * WARP;
        }
        begin(block + step);  // whose rows arrive while the nearest anchors of these are found

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
                    const float product = sums[t][2 * r + i];
                    list.most = fmaxf(list.most, fabsf(product));
                    list.bad += product * 0.0f;  // NaN, if the product is not finite
                    insert<false>(list, product + padded_bias[anchor], anchor);
                }
        }
        // Of the four lanes of two rows, two end with the one row and two with the other.
        const bool odd = part % 2, upper = part / 2;
        Nearest mine = exchanged(lists[0], lists[1], odd, 1);
        mine = exchanged(mine, mine, upper, 2);
        const long long row = block + warp * ROWS + 8 * odd + line;
        if (row < n && !upper) {
            float total = 0;
            #pragma unroll
            for (int a = 0; a < K; ++a) total += mine.distance[K] - mine.distance[a];
            // Equal distances (duplicate points, all-zero rows): share the weight evenly.
            const bool tied = total <= float(tie) * fmaxf(mine.most, most_bias[run]);
            #pragma unroll
            for (int a = 0; a < K; ++a) {
                const float share = (mine.distance[K] - mine.distance[a]) / total;
                indices[(long long)a * out_stride + row] = mine.anchor[a];
                weights[(long long)a * out_stride + row] = (tied ? 1.0f / K : share) + mine.bad;
            }
        }
    }
}
