// Compute the pass. A lane has COLUMNS columns of F of one of the rows done at once. Sums over the rows
// of an anchor are integers in shared memory, which adds them natively: they are the same in any order,
// so all warps of a block share one table.
constexpr int WARP = 32, SIZE = sizeof(REAL), SLOTS = VIEWS * K;
constexpr int PARTS = (C + COLUMNS - 1) / COLUMNS, PADDED = PARTS * COLUMNS;  // lanes of a row
// HALF lanes can load COLUMNS words each from shared memory without a bank conflict.
constexpr int HALF = WARP / COLUMNS, ROWS_A_HALF = HALF / PARTS;
constexpr int ROWS_AT_ONCE = COLUMNS * ROWS_A_HALF;
constexpr int STEPS = WARP / ROWS_AT_ONCE, TILE = STEPS * ROWS_AT_ONCE;
constexpr int STEPS_AT_ONCE = STEPS <= 5 ? STEPS : 1;
// Of a row of F in a tile: rows that are read at once do not meet in a memory bank.
constexpr int PACK = COLUMNS == 1 ? 16 / SIZE : COLUMNS;
constexpr int PITCH = COLUMNS == 1 ? (C + PACK - 1) / PACK * PACK : COLUMNS * (PARTS | 1);
constexpr int LOADS = (TILE * C + WARP - 1) / WARP;
// The line of an anchor is P, then as many bytes of sums. Where there is room, the rows of half a
// warp have copies of both, in banks of their own. What follows is at a multiple of 16 bytes.
constexpr int COPIES = APART ? ROWS_A_HALF : 1, LINE = APART ? WARP : PADDED + PADDED % 2;
constexpr int LINE_BYTES = 2 * LINE * SIZE;
constexpr int A_WORD = 4 / sizeof(INDEX), WORDS = (SLOTS + A_WORD - 1) / A_WORD;  // of anchors
constexpr int INDEX_BITS = 32 / A_WORD;
constexpr bool MANY = SLOTS > 40;  // neighbours, for the registers of a lane
constexpr int SLOTS_AT_ONCE = MANY ? 8 : SLOTS;
constexpr int SHIFTS = PARTS / 2 + 1;  // pairs of lanes of a row, for the symmetric F'F
constexpr int TILES_A_LANE = (ROWS_A_LANE + STEPS - 1) / STEPS;  // whose F'F and Fold'F are in REAL
// The bits of a number below the smallest normal one are an integer, in units of the smallest of all.
// Weights times 1 / LIFT make such numbers of F, and P times LIFT takes that back.
constexpr bool IS_FLOAT = SIZE == 4;
constexpr double SMALLEST = IS_FLOAT ? 0x1p-149 : 0x1p-1074, LIFT = IS_FLOAT ? 0x1p64 : 0x1p512;
constexpr double WORD = 0x1p32;

using Long = unsigned long long;
struct alignas(COLUMNS * SIZE) Share { REAL x[COLUMNS]; };
struct alignas(PACK * SIZE) Pack { REAL x[PACK]; };

// Return the object at an address of shared memory; such addresses are shorter than pointers.
template <class T> __device__ T& at(int address) {
    return *reinterpret_cast<T*>(__cvta_shared_to_generic(address));
}

// Return start[times * apart], with one multiplication for the address.
template <class T> __device__ T further(const T* start, unsigned apart, int times) {
    const Long bytes = (Long)apart * (unsigned)(times * sizeof(T));
    return *reinterpret_cast<const T*>(reinterpret_cast<const unsigned char*>(start) + bytes);
}

// Make the compiler keep this number in a register.
__device__ int kept(int number) {
    asm("" : "+r"(number));
    return number;
}

// Make the compiler recompute expressions of this number.
__device__ int fresh(int number) {
    asm volatile("" : "+r"(number));
    return number;
}

// Return the offset of the line of one of the anchors in a word.
__device__ int bytes_to(unsigned word, int number) {
    if (A_WORD == 4 && LINE_BYTES % 256 == 0)  // 256 times this byte of the word
        return (int)__byte_perm(word, 0, 0x4404 + 16 * number) * (LINE_BYTES / 256);
    return (int)(word >> number * INDEX_BITS & ~0u >> 32 - INDEX_BITS) * LINE_BYTES;
}

// Add the bits of a number. Those of a double are in two words, LINE words apart.
__device__ void add_fixed(int address, float value) {
    atomicAdd(&at<unsigned>(address), __float_as_uint(value));
}
__device__ void add_fixed(int address, double value) {
    const Long whole = __double_as_longlong(value);
    const unsigned low = whole, before = atomicAdd(&at<unsigned>(address), low);
    const unsigned high = (unsigned)(whole >> 32) + (before + low < before);
    if (high) atomicAdd(&at<unsigned>(address + 4 * LINE), high);
}

// Return the largest expected F, in all threads: S is non-negative and has rows that sum
// to at most 1 in a view, so F is at most the sum of the largest P of each view, plus the part from R.
__device__ double largest(const REAL* matrices, const REAL* F, double* tops, int n, int m) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    auto over_lanes = [](double top) {
        #pragma unroll
        for (int step = WARP / 2; step > 0; step /= 2) top = fmax(top, __shfl_xor_sync(~0u, top, step));
        return top;
    };
    for (int i = warp; i <= VIEWS; i += WARPS) {
        double top = 0;
        if (i < VIEWS)
            for (int j = lane; j < m * C; j += WARP)
                top = fmax(top, (double)matrices[(i * m + j / C) * WIDTH + j % C]);
        else if (lane < C)
            for (int j = 0; j < C; ++j)
                top += fmax(0.0, (double)matrices[(VIEWS * m + j) * WIDTH + lane]);
        top = over_lanes(top);
        if (lane == 0) tops[i] = top;
    }
    // F is sampled from the rows of this block, as others may have changed. Some entries are larger,
    // few of them twice as large; `add_large` adds the others.
    const int n_tiles = (n + TILE - 1) / TILE, n_warps = gridDim.x * WARPS;
    const int turns = (n_tiles + n_warps - 1) / n_warps;
    const long long tile = blockIdx.x * WARPS + warp + (long long)lane * turns / WARP * n_warps;
    const long long row = tile * TILE + lane % TILE;
    double top = 0;
    for (int i = 0; i < 4; ++i)
        if (row < n) top = fmax(top, (double)F[row * C + (4 * lane + i) % C]);
    top = over_lanes(top);
    if (lane == 0) tops[VIEWS + 1 + warp] = top;
    __syncthreads();
    double sum = 0, most = 0;
    for (int i = 0; i < VIEWS; ++i) sum += tops[i];
    for (int i = 0; i < WARPS; ++i) most = fmax(most, tops[VIEWS + 1 + i]);
    return sum + 2 * tops[VIEWS] * most;
}

// Update F = max([S_1 ... S_V] P + F R, 0) and compute, per block, S'F, F'F and Fold'F of its rows.
// Arrays of the runs are stored one after another; their matrices and flags have strides. The first two
// numbers are the integers for the largest expected F, whose sums over `most_turns` turns fit in the
// table, and for larger F. Beyond FAR times the expected size, sums are NaN.
extern "C" __global__ void __launch_bounds__(WARPS * WARP, 1) sweep(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights, REAL* __restrict__ F,
    const REAL* __restrict__ matrices, double* __restrict__ sums, const double* goes_on,
    double units, double large_units, int most_turns, int n, int m, int matrices_apart, int flags_apart
) {
    const long long run = blockIdx.y;
    if (goes_on && !goes_on[run * flags_apart]) return;
    indices += run * VIEWS * K * n;
    weights += run * VIEWS * K * n;
    F += run * n * C;
    matrices += run * matrices_apart;
    extern __shared__ unsigned char memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int half = lane / HALF, in_half = lane % HALF;
    // Spare lanes repeat the first ones and add nothing.
    const bool busy = in_half < ROWS_A_HALF * PARTS;
    const int part = busy ? in_half % PARTS : 0, row_of_half = busy ? in_half / PARTS : 0;
    const int first_lane = lane - in_half + row_of_half * PARTS;  // of the same row
    const int row_of_lane = half * ROWS_A_HALF + row_of_half;

    const int lines = VIEWS * m, table = __cvta_generic_to_shared(memory);
    const int of_weights = table + lines * LINE_BYTES;
    const int of_F = of_weights + WARPS * SLOTS * TILE * SIZE;
    const int of_tops = of_F + WARPS * TILE * PITCH * SIZE, of_anchors = of_tops + (VIEWS + 1 + WARPS) * 8;
    const int tile_weights = of_weights + warp * SLOTS * TILE * SIZE;
    const int tile_F = of_F + warp * TILE * PITCH * SIZE;
    const int tile_anchors = of_anchors + warp * WORDS * TILE * 4;
    const int my_weights = kept(tile_weights + row_of_lane * SIZE);
    const int my_F = kept(tile_F + row_of_lane * PITCH * SIZE);
    const int my_anchors = kept(tile_anchors + row_of_lane * 4);
    const int column = APART ? in_half * COLUMNS : part * COLUMNS, my_P = kept(table + column * SIZE);
    // The second half of a warp begins with the last column, so that the two do not meet in a bank.
    int my_sums[COLUMNS];
    #pragma unroll
    for (int a = 0; a < COLUMNS; ++a)
        my_sums[a] = kept(table + LINE * SIZE + (column + (half ? COLUMNS - 1 - a : a)) * 4);

    auto place_of_F = [&](int i) -> REAL& {
        return at<REAL>(tile_F + (i / C * PITCH + i % C) * SIZE);
    };
    auto place_of_anchors = [&](int row, int slot) -> unsigned& {
        return at<unsigned>(tile_anchors + (slot / A_WORD * TILE + row) * 4);
    };
    auto place_of_weight = [&](int row, int slot) -> REAL& {
        return at<REAL>(tile_weights + (slot * TILE + row) * SIZE);
    };

    for (int i = threadIdx.x; i < lines * 2 * LINE; i += WARPS * WARP) {
        const int line = i / (2 * LINE), place = i % (2 * LINE), j = place % PADDED;
        const bool there = j < C && place < COPIES * PADDED;
        at<REAL>(table + i * SIZE) = there ? matrices[line * WIDTH + j] * REAL(LIFT) : REAL(0);
    }
    for (int i = lane; i < TILE * PITCH; i += WARP) at<REAL>(tile_F + i * SIZE) = 0;
    const double expected = fmin(fmax(largest(matrices, F, &at<double>(of_tops), n, m), 1e-9), 1e9);
    const REAL most = REAL(SMALLEST * LIFT * units), scale = REAL(most / expected);

    REAL R[PADDED][COLUMNS], FtF[SHIFTS][COLUMNS][COLUMNS], FoldtF[PADDED][COLUMNS];
    #pragma unroll
    for (int a = 0; a < COLUMNS; ++a) {
        const int j = part * COLUMNS + a;
        #pragma unroll
        for (int i = 0; i < PADDED; ++i) {
            R[i][a] = i < C && j < C ? matrices[(lines + i) * WIDTH + j] : REAL(0);
            FoldtF[i][a] = 0;
        }
        #pragma unroll
        for (int b = 0; b < COLUMNS; ++b)
            #pragma unroll
            for (int s = 0; s < SHIFTS; ++s) FtF[s][a][b] = 0;
    }

    const int n_tiles = (n + TILE - 1) / TILE, n_warps = gridDim.x * WARPS;
    const int first_tile = blockIdx.x * WARPS + warp, turns = (n_tiles + n_warps - 1) / n_warps;
    const int of_table = lines * C, size = of_table + 2 * C * C;
    double* const of_block = sums + (run * gridDim.x + blockIdx.x) * (size + WARPS * 2 * C * C + of_table);
    Long* const large = reinterpret_cast<Long*>(of_block + size + WARPS * 2 * C * C);
    for (int i = threadIdx.x; i < of_table; i += WARPS * WARP) of_block[i] = large[i] = 0;
    __syncthreads();

    // The next tile is loaded while this one is processed.
    REAL next_weight[SLOTS_AT_ONCE], next_F[LOADS], factor;  // of the weights, 0 beyond the last row
    unsigned next_anchor[SLOTS_AT_ONCE];
    auto numbers_of = [&](int tile) { return tile < n_tiles ? min(TILE, n - tile * TILE) * C : 0; };
    auto fetch_slots = [&](int tile, int first) {
        const unsigned apart = fresh(n);
        const unsigned row = min((unsigned)tile * TILE + lane, n - 1u);
        factor = lane * C < numbers_of(tile) ? REAL(1 / LIFT) : REAL(0);
        #pragma unroll
        for (int s = 0; s < SLOTS_AT_ONCE; ++s) {
            const int slot = MANY ? min(first + s, SLOTS - 1) : s;
            next_weight[s] = further(weights + row, apart, slot);
            next_anchor[s] = further(indices + row, apart, slot);
        }
    };
    auto put_slots = [&](int first) {
        if (lane >= TILE) return;
        #pragma unroll
        for (int s = 0; s < SLOTS_AT_ONCE; ++s)
            if (!MANY || first + s < SLOTS) place_of_weight(lane, first + s) = next_weight[s] * factor;
        #pragma unroll
        for (int s = 0; s < SLOTS_AT_ONCE; s += A_WORD) {
            unsigned word = next_anchor[s];
            #pragma unroll
            for (int i = 1; i < A_WORD; ++i)
                if (s + i < SLOTS_AT_ONCE) word |= next_anchor[s + i] << i * INDEX_BITS;
            if (!MANY || first + s < SLOTS) place_of_anchors(lane, first + s) = word;
        }
    };
    auto fetch = [&](int tile) {
        if (!MANY) fetch_slots(tile, 0);
        const int numbers = numbers_of(tile);
        const REAL* const from = F + (long long)tile * TILE * C + lane;
        #pragma unroll
        for (int j = 0; j < LOADS; ++j)
            next_F[j] = j * WARP + lane < numbers ? from[j * WARP] : REAL(0);
    };
    auto empty_table = [&]() {
        __syncthreads();
        for (int i = threadIdx.x; i < of_table; i += WARPS * WARP) {
            unsigned* const words = &at<unsigned>(table + i / C * LINE_BYTES + LINE * SIZE);
            double total = of_block[i];
            #pragma unroll
            for (int copy = 0; copy < COPIES; ++copy)
                #pragma unroll
                for (int word = 0; word < SIZE / 4; ++word) {
                    unsigned& sum = words[word * LINE + copy * PADDED + i % C];
                    total += (word ? WORD : 1) * sum;
                    sum = 0;
                }
            of_block[i] = total;
        }
        __syncthreads();
    };
    // Entries larger than expected, in few rows.
    bool lost = false;
    auto add_large = [&]() {
        if (lane >= TILE) return;
        #pragma unroll 1
        for (int j = 0; j < C; ++j) {
            const REAL scaled = place_of_F(lane * C + j) * scale;
            if (scaled <= most) continue;
            const double times = scaled / (SMALLEST * LIFT * units);
            lost = lost || !(times <= FAR);
            #pragma unroll 1
            for (int s = 0; s < SLOTS; ++s) {
                const int line = s / K * m + bytes_to(place_of_anchors(lane, s), s % A_WORD) / LINE_BYTES;
                const double weight = place_of_weight(lane, s) * LIFT;
                atomicAdd(large + line * C + j, (Long)rint(weight * times * large_units));
            }
        }
    };
    // Return the sum over the rows done at once, in the lanes of the first.
    auto over_rows = [&](REAL value) {
        double total = 0;
        #pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; ++r)
            total += __shfl_sync(~0u, value, r / ROWS_A_HALF * HALF + r % ROWS_A_HALF * PARTS + part);
        return total;
    };
    bool first = true;
    auto add = [&](int i, int j, double value) {
        double& sum = of_block[size + (warp * 2 * C + i) * C + j];
        if (lane < PARTS) sum = first ? value : sum + value;
    };
    auto empty_registers = [&]() {
        #pragma unroll
        for (int a = 0; a < COLUMNS; ++a) {
            const int i = part * COLUMNS + a;
            #pragma unroll
            for (int s = 0; s < SHIFTS; ++s)
                #pragma unroll
                for (int b = 0; b < COLUMNS; ++b) {
                    const double total = over_rows(FtF[s][a][b]);
                    const int j = (part + s) % PARTS * COLUMNS + b;
                    FtF[s][a][b] = 0;
                    if (i >= C || j >= C) continue;
                    add(i, j, total);
                    if (s > 0 && 2 * s != PARTS) add(j, i, total);
                }
            #pragma unroll
            for (int j = 0; j < C; ++j) {
                const double total = over_rows(FoldtF[j][a]);
                FoldtF[j][a] = 0;
                if (i < C) add(C + j, i, total);
            }
        }
        first = false;
    };

    fetch(first_tile);
    for (int turn = 0; turn < turns; ++turn) {
        const int tile = first_tile + turn * n_warps, numbers = numbers_of(tile);
        if (numbers > 0) {
            #pragma unroll 1
            for (int s = 0; s < SLOTS; s += SLOTS_AT_ONCE) {
                if (MANY) fetch_slots(tile, s);
                put_slots(s);
            }
            #pragma unroll
            for (int j = 0; j < LOADS; ++j)
                if (j * WARP + lane < TILE * C) place_of_F(j * WARP + lane) = next_F[j];
            fetch(tile + n_warps);
            __syncwarp();
            bool all_fit = true;
            #pragma unroll STEPS_AT_ONCE
            for (int step = 0; step < STEPS; ++step) {
                const int before = step * ROWS_AT_ONCE;  // rows of the tile
                REAL old[PITCH], weight[SLOTS], FR[COLUMNS], f[COLUMNS], scaled[COLUMNS];
                unsigned anchors[WORDS];
                #pragma unroll
                for (int w = 0; w < WORDS; ++w)
                    anchors[w] = at<unsigned>(my_anchors + (w * TILE + before) * 4);
                #pragma unroll
                for (int s = 0; s < SLOTS; ++s)
                    weight[s] = at<REAL>(my_weights + (s * TILE + before) * SIZE);
                auto line_of = [&](int s) { return bytes_to(anchors[s / A_WORD], s % A_WORD); };
                #pragma unroll
                for (int i = 0; i < PITCH; i += PACK) {
                    if (i >= PADDED) continue;
                    const Pack pack = at<Pack>(my_F + (before * PITCH + i) * SIZE);
                    #pragma unroll
                    for (int a = 0; a < PACK; ++a) old[i + a] = pack.x[a];
                }
                #pragma unroll
                for (int a = 0; a < COLUMNS; ++a) {
                    f[a] = FR[a] = 0;
                    #pragma unroll
                    for (int i = 0; i < PADDED; ++i) FR[a] += old[i] * R[i][a];
                }
                #pragma unroll
                for (int s = 0; s < SLOTS; ++s) {
                    const Share P = at<Share>(s / K * m * LINE_BYTES + my_P + line_of(s));
                    #pragma unroll
                    for (int a = 0; a < COLUMNS; ++a) f[a] += weight[s] * P.x[a];
                }
                #pragma unroll
                for (int a = 0; a < COLUMNS; ++a) {
                    f[a] += FR[a];
                    f[a] = busy && f[a] > 0 ? f[a] : REAL(0);
                    scaled[a] = f[a] * scale;
                    const bool fits = scaled[a] <= most;
                    all_fit = all_fit && fits;
                    scaled[a] = fits ? scaled[a] : REAL(0);
                }
                #pragma unroll
                for (int s = 0; s < SLOTS; ++s)
                    #pragma unroll
                    for (int a = 0; a < COLUMNS; ++a)
                        add_fixed(
                            s / K * m * LINE_BYTES + my_sums[a] + line_of(s),
                            weight[s] * (half ? scaled[COLUMNS - 1 - a] : scaled[a])
                        );
                #pragma unroll
                for (int i = 0; i < PADDED; ++i)
                    #pragma unroll
                    for (int a = 0; a < COLUMNS; ++a) FoldtF[i][a] += old[i] * f[a];
                #pragma unroll
                for (int s = 0; s < SHIFTS; ++s)
                    #pragma unroll
                    for (int b = 0; b < COLUMNS; ++b) {
                        const int from = first_lane + (part + s) % PARTS;
                        const REAL other = s == 0 ? f[b] : __shfl_sync(~0u, f[b], from);
                        #pragma unroll
                        for (int a = 0; a < COLUMNS; ++a) FtF[s][a][b] += f[a] * other;
                    }
                __syncwarp();
                Share mine;
                #pragma unroll
                for (int a = 0; a < COLUMNS; ++a) mine.x[a] = f[a];
                if (busy) at<Share>(my_F + (before * PITCH + part * COLUMNS) * SIZE) = mine;
            }
            __syncwarp();
            #pragma unroll
            for (int j = 0; j < LOADS; ++j) {
                const int i = j * WARP + lane;
                if (i < numbers) F[(long long)tile * TILE * C + i] = place_of_F(i);
            }
            if (__any_sync(~0u, !all_fit)) add_large();
            __syncwarp();
            if ((turn + 1) % TILES_A_LANE == 0) empty_registers();
        }
        if ((turn + 1) % most_turns == 0) empty_table();
    }
    empty_table();
    empty_registers();
    lost = __syncthreads_or(lost);
    const double unit = SMALLEST * LIFT / scale, large_unit = unit * (units / large_units);
    for (int i = threadIdx.x; i < of_table; i += WARPS * WARP) {
        const double total = of_block[i] * unit + __ldcg(large + i) * large_unit;
        of_block[i] = lost ? __longlong_as_double(~0ull) : total;
    }
    for (int i = threadIdx.x; i < 2 * C * C; i += WARPS * WARP) {
        double total = 0;
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) total += of_block[size + w * 2 * C * C + i];
        of_block[of_table + i] = total;
    }
}
