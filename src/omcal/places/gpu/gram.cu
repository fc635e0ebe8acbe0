// Compute S_u' S_v of pairs of views u <= v in fixed point: sums of integers are the same in any order, and
// shared memory adds 32-bit integers natively, which it does not with floating-point numbers. A sum
// has two words there, of which small products change the low one only. Without it, 10⁷ × 448 takes
// 2.1 times as long (benchmarks/ablations_gpu.py).
constexpr double WORD = 4294967296.0, SHIFT = 4503599627370496.0;  // 2^32, 2^52
constexpr int UNROLLED = K <= 8 ? K : 1;

struct Entry {
    double weight;
    int anchor;
};

// 2^52 + x has the integer nearest to x in its low bits.
__device__ unsigned long long fixed(double product) {
    return __double_as_longlong(product + SHIFT) & ((1ull << 52) - 1);
}

// The first blocks_alone blocks per view multiply it with itself; blocks_of_two per pair follow.
// Graphs and sums of the runs are stored one after another.
extern "C" __global__ void __launch_bounds__(THREADS) gram(
    const INDEX* __restrict__ indices, const REAL* __restrict__ weights, double* sums,
    int n, int m, int blocks_alone, int blocks_of_two
) {
    extern __shared__ unsigned char memory[];
    const long long run = blockIdx.y;
    indices += run * VIEWS * K * n;
    weights += run * VIEWS * K * n;
    sums += run * (IN_SHARED ? gridDim.x : VIEWS * VIEWS) * m * m;
    unsigned* const high = reinterpret_cast<unsigned*>(memory);
    unsigned* const low = high + m * m;
    int u = blockIdx.x / blocks_alone, v = u, share = blockIdx.x % blocks_alone;
    int shares = blocks_alone;
    if (u >= VIEWS) {
        const int place = blockIdx.x - VIEWS * blocks_alone;
        share = place % blocks_of_two, shares = blocks_of_two;
        int pair = place / blocks_of_two;
        for (u = 0; pair >= VIEWS - 1 - u; ++u) pair -= VIEWS - 1 - u;
        v = u + 1 + pair;
    }
    unsigned long long* const whole = reinterpret_cast<unsigned long long*>(sums);
    double* const mine = sums + (long long)blockIdx.x * m * m;

    auto read = [&](int view, int row, Entry (&entries)[K]) {
        #pragma unroll UNROLLED
        for (int s = 0; s < K; ++s) {
            const long long place = (long long)(view * K + s) * n + row;
            entries[s] = {weights[place], (int)indices[place]};
        }
    };
    auto add = [&](const Entry& one, const Entry& two) {
        const unsigned long long value = fixed(one.weight * two.weight * UNIT);
        if (IN_SHARED) {
            const int cell = one.anchor * m + two.anchor;
            const unsigned part = value, before = atomicAdd(low + cell, part);
            const unsigned above = (unsigned)(value >> 32) + (before + part < before);
            if (above) atomicAdd(high + cell, above);
        } else {
            const long long line = u * m + one.anchor;
            atomicAdd(whole + line * VIEWS * m + v * m + two.anchor, value);
        }
    };

    if (IN_SHARED)
        for (int i = threadIdx.x; i < 2 * m * m; i += THREADS) high[i] = 0;
    __syncthreads();
    for (long long row = share * THREADS + threadIdx.x; row < n; row += shares * THREADS) {
        Entry one[K], two[K];
        read(u, row, one);
        if (u == v) {
            #pragma unroll UNROLLED
            for (int a = 0; a < K; ++a)
                #pragma unroll UNROLLED
                for (int b = a; b < K; ++b) add(one[a], one[b]);
            continue;
        }
        read(v, row, two);
        #pragma unroll UNROLLED
        for (int a = 0; a < K; ++a)
            #pragma unroll UNROLLED
            for (int b = 0; b < K; ++b) add(one[a], two[b]);
    }
    __syncthreads();
    if (IN_SHARED)
        for (int i = threadIdx.x; i < m * m; i += THREADS) mine[i] = (high[i] * WORD + low[i]) / UNIT;
}
