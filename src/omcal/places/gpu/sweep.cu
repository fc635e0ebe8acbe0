// A lane works for one column of F, one of the rows done at once, and every VIEWS_AT_ONCE-th view.
constexpr int WARP = 32, LANES = ROWS_AT_ONCE * VIEWS_AT_ONCE * C;
constexpr int ROUNDS = (VIEWS + VIEWS_AT_ONCE - 1) / VIEWS_AT_ONCE, SLOTS = ROUNDS * K;
constexpr int STEPS = (WARP + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, TILE = STEPS * ROWS_AT_ONCE;
constexpr int PER_PACK = 16 / sizeof(REAL);
constexpr int PACKS = (C + VIEWS_AT_ONCE * PER_PACK - 1) / (VIEWS_AT_ONCE * PER_PACK);
constexpr int SHARE = PACKS * PER_PACK;  // of the columns of F, for the lanes of one view
constexpr int USED = VIEWS_AT_ONCE == 1 ? C : SHARE;
constexpr int PITCH = SHARE * VIEWS_AT_ONCE, ANCHOR_BYTES = WARP * sizeof(REAL);
// Of the entries of a view: one more than there are, so that views do not meet in a memory bank.
constexpr int VIEW_ENTRIES = K * TILE + 1, WARP_ENTRIES = ROUNDS * VIEWS_AT_ONCE * VIEW_ENTRIES;
// Entry (j, j + s) of the symmetric F'F for s up to C / 2, shared out to the lanes of the views.
constexpr int SHIFTS = C / 2 / VIEWS_AT_ONCE + 1;
constexpr int TILES_A_FLUSH = 128;  // sums of no more rows than these are in REAL

struct alignas(2 * sizeof(REAL)) Entry { REAL weight; int bytes; };  // bytes: to the anchor
struct alignas(16) Pack { REAL x[PER_PACK]; };

__device__ REAL& at(REAL* start, int bytes) {
    return *reinterpret_cast<REAL*>(reinterpret_cast<char*>(start) + bytes);
}

__device__ void read_share(const REAL* start, REAL (&values)[USED]) {
    #pragma unroll
    for (int p = 0; p < USED / PER_PACK; ++p) {
        const Pack pack = reinterpret_cast<const Pack*>(start)[p];
        #pragma unroll
        for (int i = 0; i < PER_PACK; ++i) values[p * PER_PACK + i] = pack.x[i];
    }
    #pragma unroll
    for (int i = USED / PER_PACK * PER_PACK; i < USED; ++i) values[i] = start[i];
}

// What a lane reads of a row: its share of F, and neighbours in its views.
struct Row {
    REAL old[USED];
    Entry entry[SLOTS];
};

__device__ Row read_row(const REAL* before, const Entry* entries, int number, int view) {
    Row row;
    read_share(before + number * PITCH + view * SHARE, row.old);
    #pragma unroll
    for (int s = 0; s < SLOTS; ++s)
        row.entry[s] = entries[s / K * VIEWS_AT_ONCE * VIEW_ENTRIES + s % K * TILE + number];
    return row;
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

// F = max([S_1 ... S_V] P + F R, 0); for each warp the sums S'F, F'F and Fold'F of its rows, those of
// a block in the place of its first warp. The runs have all this one after another; the matrices
// and flags of two are so many numbers apart.
extern "C" __global__ void __launch_bounds__(WARPS * WARP, 1) sweep(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights, REAL* __restrict__ F,
    const REAL* __restrict__ matrices, double* __restrict__ sums, const double* goes_on,
    int n, int m, int matrices_apart, int flags_apart
) {
    const long long run = blockIdx.y;
    if (goes_on && !goes_on[run * flags_apart]) return;
    indices += run * VIEWS * K * n;
    weights += run * VIEWS * K * n;
    F += run * n * C;
    matrices += run * matrices_apart;
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
    REAL R[USED], FtF[SHIFTS], FoldtF[USED];
    #pragma unroll
    for (int i = 0; i < USED; ++i) {
        const int a = view * SHARE + i;
        R[i] = a < C ? matrices[(VIEWS * m + a) * WIDTH + column] : REAL(0);
        FoldtF[i] = 0;
    }
    int partner[SHIFTS];  // the lane that has the same row and another column
    #pragma unroll
    for (int i = 0; i < SHIFTS; ++i) {
        partner[i] = (row_of_lane * VIEWS_AT_ONCE + view) * C + (column + view * SHIFTS + i) % C;
        FtF[i] = 0;
    }

    const int n_tiles = (n + WARP - 1) / WARP, n_warps = gridDim.x * WARPS;
    const int first_tile = blockIdx.x * WARPS + warp;
    const int size = VIEWS * m * C + 2 * C * C;
    sums += run * n_warps * size;
    double* const mine = sums + (long long)first_tile * size;
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
        for (int i = 0; i < SHIFTS; ++i) {
            const double total = over_rows(FtF[i], lane);
            const int shift = view * SHIFTS + i, other = (column + shift) % C;
            FtF[i] = 0;
            if (!writes || shift > C / 2) continue;
            add(mine + (VIEWS * m + column) * C + other, total, first);
            if (shift > 0 && 2 * shift != C) add(mine + (VIEWS * m + other) * C + column, total, first);
        }
        #pragma unroll
        for (int i = 0; i < USED; ++i) {
            const double total = over_rows(FoldtF[i], lane);
            const int a = view * SHARE + i;
            FoldtF[i] = 0;
            if (writes && a < C) add(mine + (VIEWS * m + C + a) * C + column, total, first);
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
        Row next = read_row(before, my_entries, row_of_lane, view);
        #pragma unroll 4
        for (int step = 0; step < STEPS; ++step) {
            const Row row = next;
            REAL sum[SLOTS], part = 0, other = 0;
            #pragma unroll
            for (int i = 0; i < USED; ++i) part += row.old[i] * R[i];
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s) other += row.entry[s].weight * at(my_P, row.entry[s].bytes);
            part += other;
            // The next row is read before anything is written, which might be the same to the compiler.
            const int following = min(step + 1, STEPS - 1) * ROWS_AT_ONCE + row_of_lane;
            next = read_row(before, my_entries, following, view);
            REAL f = VIEWS_AT_ONCE == 1 ? part : REAL(0);
            if (VIEWS_AT_ONCE > 1) {
                #pragma unroll
                for (int v = 0; v < VIEWS_AT_ONCE; ++v)
                    f += __shfl_sync(~0u, part, (row_of_lane * VIEWS_AT_ONCE + v) * C + column);
            }
            f = busy && f > 0 ? f : REAL(0);
            // The anchors of a row differ, so that its sums can all be read before one is written.
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s) sum[s] = at(my_StF, row.entry[s].bytes);
            #pragma unroll
            for (int s = 0; s < SLOTS; ++s)
                at(my_StF, row.entry[s].bytes) = sum[s] + row.entry[s].weight * f;
            if (busy && view == 0) after[(step * ROWS_AT_ONCE + row_of_lane) * PITCH + column] = f;
            #pragma unroll
            for (int i = 0; i < USED; ++i) FoldtF[i] += row.old[i] * f;
            #pragma unroll
            for (int i = 0; i < SHIFTS; ++i) {
                const bool own = VIEWS_AT_ONCE == 1 && i == 0;
                FtF[i] += f * (own ? f : __shfl_sync(~0u, f, partner[i]));
            }
        }
        __syncwarp();
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
    __syncthreads();
    double* const of_block = sums + (long long)blockIdx.x * WARPS * size;
    for (int i = threadIdx.x; i < size; i += WARPS * WARP) {
        double total = 0;
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) total += of_block[(long long)w * size + i];
        of_block[i] = total;
    }
}
