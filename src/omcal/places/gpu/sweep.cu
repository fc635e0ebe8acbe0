// A lane works for one column of F, one of the rows done at once, and every VIEWS_AT_ONCE-th view.
constexpr int WARP = 32, LANES = ROWS_AT_ONCE * VIEWS_AT_ONCE * C;
constexpr int ROUNDS = (VIEWS + VIEWS_AT_ONCE - 1) / VIEWS_AT_ONCE, SLOTS = ROUNDS * K;
constexpr int STEPS = (WARP + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, TILE = STEPS * ROWS_AT_ONCE;
constexpr int PER_PACK = 16 / sizeof(REAL);
constexpr int PACKS = (C + VIEWS_AT_ONCE * PER_PACK - 1) / (VIEWS_AT_ONCE * PER_PACK);
constexpr int SHARE = PACKS * PER_PACK;  // of the columns of F, for the lanes of one view
constexpr int PITCH = SHARE * VIEWS_AT_ONCE, ANCHOR_BYTES = WARP * sizeof(REAL);
// Of the entries of a view: one more than there are, so that views do not meet in a memory bank.
constexpr int VIEW_ENTRIES = K * TILE + 1, WARP_ENTRIES = ROUNDS * VIEWS_AT_ONCE * VIEW_ENTRIES;
constexpr int TILES_A_FLUSH = 64;  // sums of no more rows than these are in REAL

struct alignas(2 * sizeof(REAL)) Entry { REAL weight; int bytes; };  // bytes: to the anchor
struct alignas(16) Pack { REAL x[PER_PACK]; };

__device__ REAL& at(REAL* start, int bytes) {
    return *reinterpret_cast<REAL*>(reinterpret_cast<char*>(start) + bytes);
}

__device__ void read_share(const REAL* start, REAL (&values)[SHARE]) {
    #pragma unroll
    for (int p = 0; p < PACKS; ++p) {
        const Pack pack = reinterpret_cast<const Pack*>(start)[p];
        #pragma unroll
        for (int i = 0; i < PER_PACK; ++i) values[p * PER_PACK + i] = pack.x[i];
    }
}

// The sum over the rows done at once, in the lanes of the first.
__device__ double over_rows(REAL value, int lane) {
    double total = value;
    #pragma unroll
    for (int r = 1; r < ROWS_AT_ONCE; ++r)
        total += __shfl_sync(~0u, value, (lane + r * VIEWS_AT_ONCE * C) % WARP);
    return total;
}

__device__ void add(double* place, double value, bool first) {
    if (first) *place = value; else atomicAdd(place, value);
}

// F = max([S_1 ... S_V] P + F R, 0); for each warp the sums S'F, F'F and Fold'F of its rows.
extern "C" __global__ void __launch_bounds__(WARPS * WARP, 1) sweep(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights, REAL* __restrict__ F,
    const REAL* __restrict__ matrices, double* __restrict__ sums, int n, int m
) {
    extern __shared__ unsigned char memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, words = ROUNDS * m * WARP;
    // Lanes that are left over follow the first ones and add zeros.
    const bool busy = lane < LANES;
    const int column = lane % C, view = busy ? lane / C % VIEWS_AT_ONCE : 0;
    const int row_of_lane = busy ? lane / (C * VIEWS_AT_ONCE) : 0;

    REAL* const P = reinterpret_cast<REAL*>(memory);
    REAL* const StF = P + words * (1 + warp);
    REAL* const my_P = P + lane;
    REAL* const my_StF = StF + lane;
    REAL* const tiles = P + words * (1 + WARPS);
    REAL* const before = tiles + 2 * warp * TILE * PITCH;
    REAL* const after = before + TILE * PITCH;
    Entry* const entries =
        reinterpret_cast<Entry*>(tiles + 2 * WARPS * TILE * PITCH) + warp * WARP_ENTRIES;
    const Entry* const my_entries = entries + view * VIEW_ENTRIES;

    for (int i = threadIdx.x; i < words; i += WARPS * WARP) {
        // Each lane finds the rows of P of its view at the anchor's address.
        const int v = i / WARP / m * VIEWS_AT_ONCE + view, anchor = i / WARP % m;
        P[i] = busy && v < VIEWS ? matrices[(v * m + anchor) * WIDTH + column] : REAL(0);
    }
    for (int i = lane; i < words; i += WARP) StF[i] = 0;
    // Entries beyond the last view, which stay as they are here, lead to sums that no view has: a
    // lane that adds nothing still writes back what it read.
    for (int i = lane; i < WARP_ENTRIES; i += WARP)
        entries[i] = {0, i / VIEW_ENTRIES / VIEWS_AT_ONCE * m * ANCHOR_BYTES};
    for (int i = lane; i < 2 * TILE * PITCH; i += WARP) before[i] = 0;
    __syncthreads();
    REAL R[SHARE], FtF[SHARE], FoldtF[SHARE];
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        const int a = view * SHARE + i;
        R[i] = a < C ? matrices[(VIEWS * m + a) * WIDTH + column] : REAL(0);
        FtF[i] = FoldtF[i] = 0;
    }

    const int n_tiles = (n + WARP - 1) / WARP, n_warps = gridDim.x * WARPS;
    const int first_tile = blockIdx.x * WARPS + warp;
    double* const mine = sums + (long long)first_tile * (VIEWS * m * C + 2 * C * C);
    // What the next tile needs is on its way while this one is worked on.
    REAL next_weight[VIEWS * K], next_F[C];
    int next_anchor[VIEWS * K];
    auto fetch = [&](int tile) {
        const long long row = (long long)tile * WARP + lane;
        const long long start = (long long)tile * WARP * C, stop = (long long)n * C;
        #pragma unroll
        for (int s = 0; s < VIEWS * K; ++s) {
            const bool there = row < n;
            next_weight[s] = there ? weights[(long long)s * n + row] : REAL(0);
            next_anchor[s] = there ? (int)indices[(long long)s * n + row] : 0;
        }
        #pragma unroll
        for (int j = 0; j < C; ++j) {
            const long long i = start + j * WARP + lane;
            next_F[j] = i < stop ? F[i] : REAL(0);
        }
    };
    auto flush = [&](bool first) {
        const bool writes = busy && row_of_lane == 0;
        for (int i = 0; i < ROUNDS * m; ++i) {
            const double total = over_rows(my_StF[i * WARP], lane);
            my_StF[i * WARP] = 0;
            const int v = i / m * VIEWS_AT_ONCE + view;
            if (writes && v < VIEWS) add(mine + (v * m + i % m) * C + column, total, first);
        }
        #pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            const double one = over_rows(FtF[i], lane), two = over_rows(FoldtF[i], lane);
            const int a = view * SHARE + i;
            FtF[i] = FoldtF[i] = 0;
            if (writes && a < C) {
                add(mine + (VIEWS * m + a) * C + column, one, first);
                add(mine + (VIEWS * m + C + a) * C + column, two, first);
            }
        }
    };

    fetch(first_tile);
    int done = 0;
    bool first = true;
    for (int tile = first_tile; tile < n_tiles; tile += n_warps) {
        #pragma unroll
        for (int s = 0; s < VIEWS * K; ++s)
            entries[s / K * VIEW_ENTRIES + s % K * TILE + lane] = {
                next_weight[s], (s / K / VIEWS_AT_ONCE * m + next_anchor[s]) * ANCHOR_BYTES
            };
        #pragma unroll
        for (int j = 0; j < C; ++j) {
            const int i = j * WARP + lane;
            before[i / C * PITCH + i % C] = next_F[j];
        }
        fetch(tile + n_warps);
        __syncwarp();
        #pragma unroll 2
        for (int step = 0; step < STEPS; ++step) {
            const int row = step * ROWS_AT_ONCE + row_of_lane;
            Entry entry[SLOTS];
            REAL old[SHARE], sum[SLOTS], part = 0, other = 0;
            read_share(before + row * PITCH + view * SHARE, old);
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s)
                entry[s] = my_entries[s / K * VIEWS_AT_ONCE * VIEW_ENTRIES + s % K * TILE + row];
            #pragma unroll
            for (int i = 0; i < SHARE; ++i) part += old[i] * R[i];
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s) other += entry[s].weight * at(my_P, entry[s].bytes);
            part += other;
            REAL f = 0;
            #pragma unroll
            for (int v = 0; v < VIEWS_AT_ONCE; ++v)
                f += __shfl_sync(~0u, part, (row_of_lane * VIEWS_AT_ONCE + v) * C + column);
            f = busy && f > 0 ? f : REAL(0);
            // The anchors of a row differ, so that its sums can all be read before one is written.
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s) sum[s] = at(my_StF, entry[s].bytes);
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s)
                at(my_StF, entry[s].bytes) = sum[s] + entry[s].weight * f;
            if (busy && view == 0) after[row * PITCH + column] = f;
            #pragma unroll
            for (int i = 0; i < SHARE; ++i) FoldtF[i] += old[i] * f;
        }
        __syncwarp();
        #pragma unroll 4
        for (int step = 0; step < STEPS; ++step) {
            const int row = step * ROWS_AT_ONCE + row_of_lane;
            REAL fresh[SHARE];
            read_share(after + row * PITCH + view * SHARE, fresh);
            const REAL f = busy ? after[row * PITCH + column] : REAL(0);
            #pragma unroll
            for (int i = 0; i < SHARE; ++i) FtF[i] += fresh[i] * f;
        }
        #pragma unroll
        for (int j = 0; j < C; ++j) {
            const int i = j * WARP + lane;
            const long long place = (long long)tile * WARP * C + i;
            if (place < (long long)n * C) F[place] = after[i / C * PITCH + i % C];
        }
        __syncwarp();
        if (++done % TILES_A_FLUSH == 0) {
            flush(first);
            first = false;
        }
    }
    if (first || done % TILES_A_FLUSH) flush(first);
}
