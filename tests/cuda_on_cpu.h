// CUDA kernels on a CPU, for tests: the threads of a block are fibers that run one after another,
// each as far as the next barrier. Slow, and as exact as the arithmetic of the machine.
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

using std::isfinite;
using std::min;

#define __device__ static
#define __global__
#define __restrict__
#define __launch_bounds__(...)

struct Index {
    int x = 0, y = 0;
};
static Index threadIdx, blockIdx, gridDim;

namespace on_cpu {

constexpr int WARP = 32, STACK = 1 << 17;

// A context begins a fiber; jumps, which make no system call, go on with it.
struct Fiber {
    ucontext_t context;
    jmp_buf place;
    std::vector<char> stack = std::vector<char>(STACK);
    bool begun = false, done = false;
};

// Threads that have arrived, and how often all of them had.
struct Barrier {
    int arrived = 0;
    long passed = 0;
};

static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static Barrier block;
static jmp_buf scheduler;
static std::function<void()> kernel;
static std::vector<unsigned char> memory;
static unsigned char words[WARP][WARP][64];  // what the lanes of a warp show one another

static void rest() {
    const int me = threadIdx.x;
    if (!_setjmp(fibers[me].place)) _longjmp(scheduler, 1);
    threadIdx.x = me;
}

static void resume(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}

static void wait(Barrier& barrier, int size) {
    const long before = barrier.passed;
    if (++barrier.arrived == size) {
        barrier.arrived = 0;
        ++barrier.passed;
    }
    while (barrier.passed == before) rest();
}

static void sync_warp() { wait(warps[threadIdx.x / WARP], WARP); }
static void sync_block() { wait(block, (int)fibers.size()); }

static void run() {
    kernel();
    fibers[threadIdx.x].done = true;
    rest();
}

// Unset memory is not zero on a GPU, either.
static void launch(int blocks, int runs, int threads, size_t bytes, std::function<void()> body) {
    kernel = body;
    gridDim = {blocks, runs};
    for (int i = 0; i < blocks * runs; ++i) {
        blockIdx = {i % blocks, i / blocks};
        memory.assign(bytes + 128, 0xCD);
        warps.assign(threads / WARP, Barrier());
        block = Barrier();
        if ((int)fibers.size() != threads) fibers = std::vector<Fiber>(threads);
        for (Fiber& fiber : fibers) {
            fiber.begun = fiber.done = false;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data();
            fiber.context.uc_stack.ss_size = fiber.stack.size();
            makecontext(&fiber.context, run, 0);
        }
        for (bool busy = true; busy;) {
            busy = false;
            for (int t = 0; t < threads; ++t)
                if (!fibers[t].done) {
                    busy = true;
                    threadIdx.x = t;
                    resume(fibers[t]);
                }
        }
    }
}

static unsigned char* shared_memory() {
    return reinterpret_cast<unsigned char*>((reinterpret_cast<size_t>(memory.data()) + 127) / 128 * 128);
}

// What lane `from` of the same warp has.
template <class Value>
static Value of_lane(const Value& value, int from) {
    auto& mine = words[threadIdx.x / WARP];
    memcpy(mine[threadIdx.x % WARP], &value, sizeof value);
    sync_warp();
    Value found;
    memcpy(&found, mine[from % WARP], sizeof value);
    sync_warp();
    return found;
}

template <class To, class From>
static To bits(From from) {
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// m16n8k8 on numbers of 19 bits, as the tensor cores lay them out.
struct Fragments {
    unsigned a[4], b[2];
};

static void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const Fragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    auto& all = words[threadIdx.x / WARP];
    memcpy(all[threadIdx.x % WARP], &mine, sizeof mine);
    sync_warp();
    const int line = threadIdx.x % WARP / 4, part = threadIdx.x % 4;
    auto number = [&](int lane, bool of_b, int place) {
        Fragments its;
        memcpy(&its, all[lane], sizeof its);
        return bits<float>((of_b ? its.b[place] : its.a[place]) & 0xffffe000u);
    };
    for (int i = 0; i < 4; ++i) {
        const int row = line + i / 2 * 8, column = 2 * part + i % 2;
        for (int k = 0; k < 8; ++k)
            sums[i] += number(row % 8 * 4 + k % 4, false, row / 8 + k / 4 * 2) *
                       number(column * 4 + k % 4, true, k / 4);
    }
    sync_warp();
}

// m8n8k4.
static void multiply(double (&sums)[2], double a, double b) {
    const double mine[2] = {a, b};
    auto& all = words[threadIdx.x / WARP];
    memcpy(all[threadIdx.x % WARP], mine, sizeof mine);
    sync_warp();
    const int line = threadIdx.x % WARP / 4, part = threadIdx.x % 4;
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 4; ++k) {
            double left[2], right[2];
            memcpy(left, all[line * 4 + k], sizeof left);
            memcpy(right, all[(2 * part + i) * 4 + k], sizeof right);
            sums[i] += left[0] * right[1];
        }
    sync_warp();
}

static float from_half(unsigned short half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent ? std::ldexp(1024.0f + fraction, exponent - 25) : std::ldexp((float)fraction, -24);
    return half >> 15 ? -size : size;
}

}  // namespace on_cpu

static void __syncwarp() { on_cpu::sync_warp(); }
static void __syncthreads() { on_cpu::sync_block(); }
static bool __syncthreads_and(bool mine) {
    static bool all;
    on_cpu::sync_block();
    all = true;
    on_cpu::sync_block();
    all = all && mine;
    on_cpu::sync_block();
    return all;
}
static bool __syncthreads_or(bool mine) { return !__syncthreads_and(!mine); }
template <class Value>
static Value __shfl_sync(unsigned, Value value, int from) {
    return on_cpu::of_lane(value, from);
}
template <class Value>
static Value __shfl_xor_sync(unsigned, Value value, int step) {
    return on_cpu::of_lane(value, threadIdx.x % on_cpu::WARP ^ step);
}
static unsigned __ballot_sync(unsigned, bool mine) {
    auto& of_warp = on_cpu::words[threadIdx.x / on_cpu::WARP];
    of_warp[threadIdx.x % on_cpu::WARP][0] = mine;
    on_cpu::sync_warp();
    unsigned all = 0;
    for (int lane = 0; lane < on_cpu::WARP; ++lane) all |= (unsigned)of_warp[lane][0] << lane;
    on_cpu::sync_warp();
    return all;
}
static bool __any_sync(unsigned, bool mine) { return __ballot_sync(~0u, mine); }
static size_t __cvta_generic_to_shared(const void* place) {
    return (const unsigned char*)place - on_cpu::shared_memory();
}
static void* __cvta_shared_to_generic(size_t address) { return on_cpu::shared_memory() + address; }
static unsigned __byte_perm(unsigned x, unsigned y, unsigned chosen) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned found = 0;
    for (int i = 0; i < 4; ++i) found |= (unsigned)(both >> (chosen >> 4 * i & 7) * 8 & 255) << 8 * i;
    return found;
}
static double rsqrt(double x) { return 1 / std::sqrt(x); }
static float rsqrtf(float x) { return 1 / std::sqrt(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
template <class Place, class Value>
static Place atomicAdd(Place* place, Value value) {
    const Place before = *place;
    *place += value;
    return before;
}
template <class Value>
static Value __ldcg(const Value* place) { return *place; }
static void __threadfence() {}
static long long __double_as_longlong(double x) { return on_cpu::bits<long long>(x); }
static double __longlong_as_double(long long x) { return on_cpu::bits<double>(x); }
static float __int_as_float(int x) { return on_cpu::bits<float>(x); }
static float __uint_as_float(unsigned x) { return on_cpu::bits<float>(x); }
static unsigned __float_as_uint(float x) { return on_cpu::bits<unsigned>(x); }
