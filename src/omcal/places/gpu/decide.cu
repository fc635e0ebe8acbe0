// Compute rows of F and their labels. LANES neighbouring lanes share a row, SHARE columns each, and
// keep it in registers, in double for any REAL. Without it, 10⁷ × 448 takes 1.8 times as long
// (benchmarks/ablations_gpu.py).
constexpr int WARP = 32, SHARE = (C + LANES - 1) / LANES, COLUMNS = SHARE * LANES;
constexpr int ROWS_OF_WARP = WARP / LANES, AT_ONCE = K < 8 ? K : 8;
constexpr int PITCH = IN_SHARED ? COLUMNS | 1 : WIDTH;  // odd: lanes meet in few memory banks

struct Share {
    double x[SHARE];
};

// Return the value of the lane that has part `part` of the same row.
__device__ double of_part(double value, int part, int lane) {
    return LANES == 1 ? value : __shfl_sync(~0u, value, lane / LANES * LANES + part);
}

template <class Number, class Join>
__device__ Number over_row(Number value, Join join) {
    #pragma unroll
    for (int step = 1; step < LANES; step *= 2)
        value = join(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

__device__ double largest_size(const Share& share) {
    double most = 0;
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) most = fmax(most, fabs(share.x[i]));
    return over_row(most, [](double a, double b) { return fmax(a, b); });
}

// Return [S_1 ... S_V] table, for a table with rows of `pitch` entries.
__device__ Share graph_times(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights,
    const REAL* table, int pitch, long long row, int part, int n, int m
) {
    Share sum = {};
    const INDEX* index = indices + row;
    const REAL* weight = weights + row;
    for (int v = 0; v < VIEWS; ++v) {
        #pragma unroll AT_ONCE
        for (int s = 0; s < K; ++s, index += n, weight += n) {
            const REAL* const line = table + (v * m + (int)*index) * pitch + part * SHARE;
            const double w = *weight;
            #pragma unroll
            for (int i = 0; i < SHARE; ++i)
                if (part * SHARE + i < C) sum.x[i] += w * line[i];
        }
    }
    return sum;
}

// Return the first column at most `slack` below the largest entry; `largest` becomes that entry.
__device__ int first_largest(const Share& share, int part, double slack, REAL& largest) {
    largest = -__int_as_float(0x7f800000);  // minus infinity
    #pragma unroll
    for (int i = 0; i < SHARE; ++i)
        if (part * SHARE + i < C && REAL(share.x[i]) > largest) largest = REAL(share.x[i]);
    largest = over_row(largest, [](REAL a, REAL b) { return a > b ? a : b; });
    const REAL least = largest - REAL(slack);
    int column = C;
    #pragma unroll
    for (int i = SHARE - 1; i >= 0; --i)
        if (part * SHARE + i < C && REAL(share.x[i]) >= least) column = part * SHARE + i;
    return over_row(column, [](int a, int b) { return a < b ? a : b; });
}

// Return the largest entry of a row except that of its label, at least 0; `column` becomes its column.
__device__ double runner_up(Share F, int part, int label, int& column) {
    REAL largest;
    #pragma unroll
    for (int i = 0; i < SHARE; ++i)
        F.x[i] = part * SHARE + i == label ? -1.0 : fmax(F.x[i], 0.0);
    column = first_largest(F, part, 0.0, largest);
    return fmax((double)largest, 0.0);
}

// U = B + F R for the F given, or where SETTLES at the fixed point F = max(B + F R, 0), by
// coordinate descent; B = [S_1 ... S_V] P. F, labels, and the runners-up with the share of the label
// in the squares of both, in 255ths, are written unless their pointer is null. Rows of U no larger
// than `limit` are uninformative: [S_1 ... S_V] G decides there. Entries that differ by no more than
// that are equal, in G those by EQUAL_IN_G, and the first of them decides.
extern "C" __global__ void __launch_bounds__(THREADS) decide(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights, REAL* F,
    const REAL* __restrict__ P, const R_REAL* __restrict__ R_given, const REAL* __restrict__ G,
    int* labels, unsigned char* second, unsigned char* share, int* undecided, double limit,
    int n, int m
) {
    extern __shared__ unsigned char memory[];
    double* const R = reinterpret_cast<double*>(memory);
    double* const scale = R + COLUMNS * COLUMNS;  // 1 / (1 - the diagonal of R)
    REAL* const copy = reinterpret_cast<REAL*>(scale + COLUMNS);
    for (int i = threadIdx.x; i < COLUMNS * COLUMNS; i += THREADS) {
        const int a = i / COLUMNS, b = i % COLUMNS;
        R[i] = a < C && b < C ? (double)R_given[a * WIDTH + b] : 0.0;
    }
    if (IN_SHARED)
        for (int i = threadIdx.x; i < VIEWS * m * C; i += THREADS)
            copy[i / C * PITCH + i % C] = P[i / C * WIDTH + i % C];
    __syncthreads();
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS)
        scale[i] = 1.0 / (1.0 - R[i * COLUMNS + i]);
    __syncthreads();

    const int lane = threadIdx.x % WARP, part = lane % LANES;
    const int warp = (blockIdx.x * THREADS + threadIdx.x) / WARP;
    const long long step = (long long)gridDim.x * THREADS / WARP * ROWS_OF_WARP;
    const double* const my_R = R + part * SHARE;
    for (long long top = (long long)warp * ROWS_OF_WARP; top < n; top += step) {
        const long long row = top + lane / LANES;
        const bool there = row < n;
        const long long from = there ? row : n - 1;  // lanes without a row repeat the last
        Share U = graph_times(indices, weights, IN_SHARED ? copy : P, PITCH, from, part, n, m), f;
        const double tolerance = TOLERANCE * largest_size(U);
        #pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            if (SETTLES) f.x[i] = fmax(U.x[i], 0.0);
            else f.x[i] = part * SHARE + i < C ? (double)F[from * C + part * SHARE + i] : 0.0;
        }
        auto move = [&](double change, int j) {
            #pragma unroll
            for (int i = 0; i < SHARE; ++i) U.x[i] += change * my_R[j * COLUMNS + i];
        };
        const Share begun = f;
        #pragma unroll
        for (int p = 0; p < LANES; ++p)
            #pragma unroll
            for (int i = 0; i < SHARE; ++i) move(of_part(begun.x[i], p, lane), p * SHARE + i);
        if (SETTLES) {
            bool moves = true;
            for (int sweep = 0; sweep < MAX_SWEEPS && __any_sync(~0u, moves); ++sweep) {
                double most = 0;
                #pragma unroll
                for (int p = 0; p < LANES; ++p)
                    #pragma unroll
                    for (int i = 0; i < SHARE; ++i) {
                        const int mine = part * SHARE + i;
                        const double own = R[mine * COLUMNS + mine] * f.x[i];
                        const double next = fmax((U.x[i] - own) * scale[mine], 0.0);
                        const double change = of_part(next - f.x[i], p, lane);
                        if (part == p) f.x[i] = next;
                        most = fmax(most, fabs(change));
                        move(change, p * SHARE + i);
                    }
                moves = most > tolerance;
            }
        }

        REAL largest, of_G;
        int label = first_largest(U, part, limit, largest);
        const bool silent = REAL(largest_size(U)) <= REAL(limit);
        if (__any_sync(~0u, silent)) {
            const Share AG = graph_times(indices, weights, G, WIDTH, from, part, n, m);
            const int other = first_largest(AG, part, EQUAL_IN_G, of_G);
            if (silent) label = other;
        }
        if (there && labels && part == 0) labels[row] = label;
        if (second) {
            int column;
            const double size = fmax((double)largest, 0.0);  // the label can lack rounding of it
            const double rest = runner_up(U, part, label, column);
            const double both = size * size + rest * rest;
            if (there && part == 0) {
                second[row] = column;
                share[row] = (unsigned char)rint(255.0 * (both > 0 ? size * size / both : 1.0));
            }
        }
        if (there && F) {
            #pragma unroll
            for (int i = 0; i < SHARE; ++i)
                if (part * SHARE + i < C)
                    F[row * C + part * SHARE + i] = REAL(fmax(U.x[i], 0.0));
        }
        if (undecided) {
            const bool counts = there && part == 0 && (silent || largest <= 0);
            const int number = __popc(__ballot_sync(~0u, counts));
            if (lane == 0 && number) atomicAdd(undecided, number);
        }
    }
}
