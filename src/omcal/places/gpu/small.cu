// Update G, Z, the weights and the objective from the sums of a pass, as `method.solver.Iteration.finish`
// does, and pack the matrices of the next pass; one block of threads per run. Without it, one run
// of 60000 × 1430 takes 2.6 times as long (benchmarks/ablations_gpu.py).
#include "block_sum.cuh"
#include "roots.cuh"

// Usual ratios of the smallest to the largest singular value: of products of F and Z, and of M.
constexpr double LEAST_OF_F = 1e-1, LEAST_OF_M = 1e-2;
constexpr int ANSWER = 3;  // numbers: the objective, whether it is valid, whether the run continues
enum { FIXED, ADAPTIVE, BY_AGREEMENT };  // RULE of the weights
// The parts of a launch, in this order. `ProductRoot` runs in between if M'M is too large for one block.
enum { TURNS = 1, SHRINKS = 2, MULTIPLIES = 4, DECOMPOSES = 8, ENDS = 16 };

// The code runs once per launch, and loading it takes time: loops are not unrolled.
template <class Work>
__device__ void each(int n, Work work) {
    #pragma unroll 1
    for (int i = threadIdx.x; i < n; i += THREADS) work(i);
    __syncthreads();
}

// Return the sum of value(0) to value(n - 1), in all threads.
template <class Value>
__device__ double total(double* parts, int n, Value value) {
    double sum = 0;
    #pragma unroll 1
    for (int i = threadIdx.x; i < n; i += THREADS) sum += value(i);
    return block_sum(parts, sum);
}

// Return entry i of the product of a (· × inner) and a (inner × width) matrix.
__device__ double entry(const double* L, const double* R, int inner, int width, int i) {
    const double* const left = L + i / width * inner;
    const double* const right = R + i % width;
    double sum = 0;
    #pragma unroll 4
    for (int k = 0; k < inner; ++k) sum += left[k] * right[k * width];
    return sum;
}

// Compute the orthogonal polar factor of the m × C matrix B; return whether it has converged.
__device__ bool orthogonal_factor(
    const double* B, double* G, double* room, double* products, double* shared, int m
) {
    auto gram = [&](const double* M) {
        each(C * C, [&](int i) {
            double sum = 0;
            #pragma unroll 4
            for (int k = 0; k < m; ++k) sum += M[k * C + i / C] * M[k * C + i % C];
            products[i] = sum;
        });
    };
    gram(B);
    constexpr int SIDE = whole_tiles(C);
    double* const root = shared;
    const double size = largest_sum(products, C, room);
    const bool right = inverse_root<SIDE>(products, C, size, root, LEAST_OF_F);
    each(m * C, [&](int i) {
        double sum = 0;
        for (int k = 0; k < C; ++k) sum += B[i / C * C + k] * root[k * pitch(SIDE) + i % C];
        room[i] = sum;
    });
    gram(room);  // once more: the products of B have lost digits that B has
    each(m * C, [&](int i) { G[i] = 1.5 * room[i] - 0.5 * entry(room, products, C, C, i); });
    return right;
}

// Compute T = kept - tau X and the sums of the singular values of Z and of their squares: `kept` is the
// projector on singular values above tau, X the inverse root of A = M'M there.
template <class Kept, class Root>
__device__ void shrink(
    const double* A, double* T, double* totals, double* partial, double tau, int m, Kept kept, Root X
) {
    each(m * m, [&](int i) { T[i] = kept(i) - tau * X(i); });
    const double trace = total(partial, m * m, [&](int i) { return A[i] * kept(i); });
    const double sigma = total(partial, m * m, [&](int i) { return A[i] * X(i); });
    const double number = total(partial, m, [&](int i) { return kept(i * (m + 1)); });
    if (threadIdx.x == 0) {
        totals[0] = sigma - tau * number;
        totals[1] = trace - 2 * tau * sigma + tau * tau * number;
    }
}

// `state` is kept from one iteration to the next: alpha of Z, the last G, alpha, G, T; then the
// objective, the age of the momentum, whether the run continues, its iterations so far and at most.
// `given_work` begins with M'M and whether all is valid.
// `ProductRoot` starts from `begun` (M'M less tau squared, and M'M less I, both scaled) and returns a
// projector and an inverse root; if no singular value is to be cut, no projector but the square of the
// inverse root. Tables and states of two runs are `apart` numbers apart.
extern "C" __global__ void __launch_bounds__(THREADS, 1) small(
    const double* __restrict__ sums, const double* __restrict__ StS, const double* __restrict__ H,
    const double* __restrict__ faces, const double* __restrict__ given,
    double* state, double* given_work,
    double* begun, const double* projector, const double* inverse, const double* squared,
    REAL* letter, double* answers,
    double beta, double gamma, double tau, double tol,
    int m, int n_faces, int n_places, int apart, int work_apart, int letters_apart, int n_shared, int parts
) {
    extern __shared__ unsigned char memory[];
    double* const shared = reinterpret_cast<double*>(memory);
    double* const partial = shared;  // of sums
    double* const room = shared + WARPS;  // for roots
    const int mc = m * C, mm = m * m;
    const double s = 1.0 / (1.0 + gamma);

    const int run = blockIdx.y, n_runs = gridDim.y;
    sums += run * (VIEWS * mc + 2 * C * C);
    const long long shift = (long long)run * apart;
    H += shift, faces += shift, given += shift, state += shift;
    StS += (long long)run * VIEWS * VIEWS * mm;
    if (given_work) given_work += (long long)run * work_apart;
    begun += run * mm, inverse += run * mm;
    if (projector) projector += run * mm;
    if (squared) squared += run * mm;
    letter += run * letters_apart;
    answers += run * n_places * ANSWER;

    double* const alpha_of_Z = state;
    double* const last_G = alpha_of_Z + VIEWS;
    double* const alpha = last_G + mc;
    double* const G = alpha + VIEWS;
    double* const T = G + mc;
    double* const value = T + mm;
    double* const age = value + 1;
    double* const goes_on = age + 1;
    double* const number = goes_on + 1;
    double* const most = number + 1;
    if (!*goes_on) return;

    // Without `given_work`, these live in shared memory for this launch.
    double* const A = given_work ? given_work : shared + n_shared;  // M'M
    double* const right = A + mm;
    double* const next_T = right + 1;
    double* const next_G = next_T + mm;
    double* const AtF = next_G + mc;
    double* const TG = AtF + mc;
    double* const one = TG + mc;
    double* const two = one + mc;
    double* const products = two + mc;  // C × C
    double* const weights = products + C * C;
    double* const weights_of_Z = weights + VIEWS;
    double* const SZ = weights_of_Z + VIEWS;
    double* const totals = SZ + VIEWS;  // sums of the singular values of Z, and of their squares
    double* const scale = totals + 2;  // of the inverse root of M'M that one of size 1 has
    double* const values = scale + 1;  // of the faces

    const double* const StF = sums;
    const double* const FtF = sums + VIEWS * mc;
    const double* const FoldtF = FtF + C * C;
    auto mixed = [&](const double* by, const double* matrices, int size, int i) {
        double sum = 0;
        #pragma unroll
        for (int v = 0; v < VIEWS; ++v) sum += by[v] * matrices[v * size + i];
        return sum;
    };
    auto turned = [&](const double* B, double* target, double* spare) {
        return orthogonal_factor(B, target, spare, products, room, m);
    };

    if (parts & TURNS) {
        each(mc, [&](int i) {
            one[i] = mixed(alpha_of_Z, StF, mc, i) + gamma * entry(G, FoldtF, C, C, i);
        });
        each(mc, [&](int i) { two[i] = s * entry(T, one, m, C, i); });
        const bool well = turned(two, next_G, one);
        if (threadIdx.x == 0) *right = well;
        each(VIEWS, [&](int v) { weights[v] = alpha[v]; });
    }

    // Update the weights after a new T.
    auto weigh = [&] {
        each(mc, [&](int i) { TG[i] = entry(next_T, next_G, m, C, i); });
        #pragma unroll 1
        for (int v = 0; v < VIEWS; ++v) {
            const double* const of_view = StS + (long long)v * VIEWS * mm;
            const double from_graphs =
                total(partial, mm, [&](int i) { return next_T[i] * mixed(weights, of_view, mm, i); });
            const double from_factor = total(partial, mc, [&](int i) { return StF[v * mc + i] * TG[i]; });
            if (threadIdx.x == 0) SZ[v] = s * (from_graphs + gamma * from_factor);
        }
        each(VIEWS, [&](int v) { weights_of_Z[v] = weights[v]; });

        if (RULE == ADAPTIVE) {
            // The minimum is inside some face of the simplex: a linear function of SZ.
            auto point = [&](int face, int v) {
                const double* const line = faces + ((long long)face * VIEWS + v) * (VIEWS + 1);
                double sum = line[VIEWS];
                for (int u = 0; u < VIEWS; ++u) sum += line[u] * 2.0 * SZ[u];
                return sum;
            };
            each(n_faces, [&](int face) {
                double points[VIEWS], sum = 0;
                bool inside = true;
                for (int v = 0; v < VIEWS; ++v) points[v] = point(face, v), inside = inside && points[v] >= 0;
                for (int v = 0; v < VIEWS; ++v) {
                    double product = -2.0 * SZ[v];
                    for (int u = 0; u < VIEWS; ++u) product += points[u] * H[u * VIEWS + v];
                    sum += product * points[v];
                }
                values[face] = inside ? sum : __longlong_as_double(0x7ff0000000000000);  // infinity
            });
            int best = 0;
            for (int face = 1; face < n_faces; ++face)
                if (values[face] < values[best]) best = face;
            each(VIEWS, [&](int v) { weights[v] = point(best, v); });
        } else if (RULE == BY_AGREEMENT) {
            // `given` is 1 over the number of copies of each view, 0 for views without a weight.
            const double trace_of_FtF = total(partial, C, [&](int j) { return FtF[j * C + j]; });
            for (int v = 0; v < VIEWS; ++v) {
                const double inner = total(partial, mc, [&](int i) { return StF[v * mc + i] * next_G[i]; });
                const double size = sqrt(H[v * VIEWS + v] * trace_of_FtF);
                if (threadIdx.x == 0)
                    values[v] = fmax(inner / (size == 0 ? 1.0 : size), 0.0) * given[v];
            }
            __syncthreads();
            const double sum = total(partial, VIEWS, [&](int v) { return values[v]; });
            const double heard = total(partial, VIEWS, [&](int v) { return double(given[v] > 0); });
            each(VIEWS, [&](int v) { weights[v] = sum > 0 ? values[v] / sum : (given[v] > 0) / heard; });
        }
    };
    // The sum of (tau / sigma)^4 over all singular values: below 1 none is cut.
    auto all_kept = [&](double squares_of_inverse) { return tau * tau * tau * tau * squares_of_inverse < 1; };
    auto unit = [&](int i) { return double(i / m == i % m); };
    if (parts & SHRINKS) {
        auto kept = [&](int i) { return tau > 0 && projector ? projector[i] : unit(i); };
        auto X = [&](int i) { return tau > 0 ? inverse[i] * *scale : 0.0; };
        shrink(A, next_T, totals, partial, tau, m, kept, X);
        if (tau > 0 && squared) {
            const double part = total(partial, mm, [&](int i) { return squared[i] * squared[i]; });
            const double of_inverse = *scale * *scale;
            if (threadIdx.x == 0 && !all_kept(of_inverse * of_inverse * part)) *right = 0;
        }
        if (threadIdx.x == 0 && !(totals[1] > 0)) *right = 0;
        __syncthreads();
        weigh();
    }

    if (parts & MULTIPLIES) {
        each(mc, [&](int i) {
            AtF[i] = mixed(weights, StF, mc, i);
            one[i] = gamma * AtF[i] + 0.5 * gamma * gamma * entry(next_G, FtF, C, C, i);
        });
        each(mm, [&](int i) {
            const int row = i / m, column = i % m;
            double sum = 0;
            for (int u = 0; u < VIEWS; ++u)
                sum += weights[u] * mixed(weights, StS + (long long)u * VIEWS * mm, mm, i);
            for (int k = 0; k < C; ++k)
                sum += one[row * C + k] * next_G[column * C + k] + one[column * C + k] * next_G[row * C + k];
            A[i] = sum * s * s;
        });
        const double size = largest_sum(A, m, one);
        if (threadIdx.x == 0) *scale = 1.0 / sqrt(size);
        __syncthreads();
        if (!(parts & DECOMPOSES) && tau > 0) {
            each(mm, [&](int i) {
                const bool same = i / m == i % m;
                begun[i] = (A[i] - tau * tau * same) / size;
                begun[n_runs * mm + i] = A[i] / size - same;
            });
        }
    }

    if (ANCHORS && parts & DECOMPOSES) {
        // Mostly nothing is cut, and T follows from an inverse root. Else the host takes this step, and
        // the next ones are done with a projector, from the sign of A less the square of tau.
        constexpr int SIDE = ANCHORS ? ANCHORS : TILE, PITCH = pitch(SIDE);
        double *const H = room + 2 * SIDE * PITCH, *const sign = H + SIDE * PITCH;
        const double size = 1 / (*scale * *scale);
        auto of_sign = [&](int row, int column) { return 0.5 * (sign[row * PITCH + column] + (row == column)); };
        auto kept = [&](int i) { return CUTS && tau > 0 ? of_sign(i / m, i % m) : unit(i); };
        // Directions that are cut have the eigenvalue `size`, so that a root exists.
        auto X = [&](int i) {
            return tau > 0 ? room[i / m * PITCH + i % m] - (unit(i) - kept(i)) * *scale : 0.0;
        };
        bool whole = true;
        if (CUTS && tau > 0) {
            each(mm, [&](int i) { H[i] = A[i] - tau * tau * unit(i); });
            pad<SIDE>(H, m, size, sign);
            whole = iterate<SIDE, true>(sign, sign, H, GAP);
            each(mm, [&](int i) {
                const int row = i / m, column = i % m;
                double sum = size * (unit(i) - kept(i));
                for (int k = 0; k < m; ++k) sum += A[row * m + k] * of_sign(k, column);
                H[i] = sum;
            });
        }
        if (tau > 0) whole = inverse_root<SIDE>(CUTS ? H : A, m, size, room, LEAST_OF_M) && whole;
        if (!CUTS && tau > 0) {
            double squares = 0;
            #pragma unroll 1
            for (int tile = threadIdx.x / WARP; tile < SIDE * SIDE / (TILE * TILE); tile += WARPS) {
                double entries[2];
                tile_of_product<SIDE>(room, room, tile, entries);
                const int place = place_in<SIDE>(tile), row = place / PITCH, column = place % PITCH;
                for (int i = 0; i < 2; ++i)
                    if (row < m && column + i < m) squares += entries[i] * entries[i];
            }
            whole = all_kept(block_sum(partial, squares)) && whole;
        }
        shrink(A, next_T, totals, partial, tau, m, kept, X);
        if (threadIdx.x == 0 && !whole) *right = 0;
        if (threadIdx.x == 0 && !(totals[1] > 0)) *right = 0;
        __syncthreads();
        weigh();
    }

    if (parts & ENDS) {
        const double* basis = next_G;
        const double of_factor = total(partial, mc, [&](int i) {
            return s * (AtF[i] + gamma * entry(next_G, FtF, C, C, i)) * TG[i];
        });
        const double trace_of_FtF = total(partial, C, [&](int j) { return FtF[j * C + j]; });
        double fusion = totals[1];
        for (int v = 0; v < VIEWS; ++v) {
            double product = -2.0 * SZ[v];
            for (int u = 0; u < VIEWS; ++u) product += H[v * VIEWS + u] * weights[u];
            fusion += weights[v] * product;
        }
        const double factor = totals[1] - 2.0 * of_factor + trace_of_FtF;
        const double found = fusion + beta * totals[0] + gamma * factor;
        const double before = *value, years = found > before ? 0.0 : *age;
        bool good = *right && isfinite(found);
        if (MOMENTUM) {
            const double share = fmin(years / (years + 3.0), MOST_MOMENTUM);
            each(mc, [&](int i) { two[i] = next_G[i] + share * (next_G[i] - G[i]); });
            good = turned(two, TG, one) && good;
            basis = TG;
        }
        if (good) {
            each(mc, [&](int i) { one[i] = s * entry(next_T, basis, m, C, i); });
            each(VIEWS * mc, [&](int i) {
                letter[(i / C) * WIDTH + i % C] = REAL(weights_of_Z[i / mc] * one[i % mc]);
            });
            each(C * C, [&](int i) {
                double sum = 0;
                for (int k = 0; k < m; ++k) sum += next_G[k * C + i / C] * one[k * C + i % C];
                letter[(VIEWS * m + i / C) * WIDTH + i % C] = REAL(gamma * sum);
            });
            each(mc, [&](int i) { last_G[i] = G[i], G[i] = next_G[i]; });
            each(mm, [&](int i) { T[i] = next_T[i]; });
            each(VIEWS, [&](int v) { alpha_of_Z[v] = weights_of_Z[v], alpha[v] = weights[v]; });
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double* const place = answers + (int)*number % n_places * ANSWER;
            *number += 1;
            *goes_on = good && *number < *most && !(tol > 0 && isfinite(before) && fabs(before - found) <= tol * fabs(before));
            place[0] = found, place[1] = good, place[2] = *goes_on;
            if (good) *value = found, *age = years + MOMENTUM;
        }
    }
}
