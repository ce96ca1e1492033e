// Dropout by the generator that every vendor shares.
#pragma once

#include "loops.h"
#include "philox.h"

namespace fascicle {

struct DropoutParams {
    const void* x;
    void* out;
    u64 rows;
    u64 columns;
    u64 first_index;     // of the first element held here
    u64 global_columns;  // elements from one row to the next, in the generator's count
    RandomKey key;
    double keep;  // 1 - probability
    u32 threshold;
    u32 unused;
};

// x / divisor, from the divisor's inverse: the quotient by it, and the correction by what is left of x (Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", 1990). Of infinity, nothing is left that could be computed.
template <class A>
FASCICLE_DEVICE A quotient(A x, A divisor, A inverse) {
    A near = x * inverse;
    A exact = multiply_add(multiply_add(-near, divisor, x), inverse, near);
    return exact == exact ? exact : near;
}

// Packs that a thread reads before it draws for one; `lower/dropout.rs` knows it too.
constexpr int DROPOUT_PACKS = 2;

template <class T>
FASCICLE_DEVICE void dropout(const DropoutParams& p) {
    using A = Acc<T>;
    // At least the four numbers that the generator makes at once.
    constexpr int N = SIXTEEN_BYTES<T> < 4 ? 4 : SIXTEEN_BYTES<T>;
    A keep = A(p.keep), inverse = A(1) / keep;
    u64 thread = u64(block_x()) * block_size_x() + thread_x(), threads = u64(grid_size_x()) * block_size_x();
    u64 row = u64(block_y()) * block_size_y() + thread_y(), row_step = u64(grid_size_y()) * block_size_y();
    for (; row < p.rows; row += row_step) {
        const T* from = static_cast<const T*>(p.x) + row * p.columns;
        T* to = static_cast<T*>(p.out) + row * p.columns;
        u64 first = p.first_index + row * p.global_columns;
        each_packs_of_run<N, DROPOUT_PACKS>(p.columns, thread, threads, [&](auto count, u64 start, u64 step, u64 left) {
            constexpr int R = decltype(count)::value;
            Pack<T, N> packs[R];
            load_each(from + start, step, left, packs);
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                u64 at = start + r * step;
                bool drops[N];
                draw<N>(p.key, first + at, p.threshold, drops);
                auto x = widened<A>(packs[r]);
                FASCICLE_UNROLL
                for (int i = 0; i < N; i++) x.at[i] = drops[i] ? A(0) : quotient(x.at[i], keep, inverse);
                store_as<N>(to + at, x, left);
            }
        });
    }
}

}  // namespace fascicle

#define FASCICLE_DROPOUT(suffix, T) \
    FASCICLE_INDEPENDENT(fascicle_dropout_##suffix, fascicle::DropoutParams, 256) { fascicle::dropout<T>(p); }
FASCICLE_FLOATS(FASCICLE_DROPOUT)
