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

template <class T>
FASCICLE_DEVICE void dropout(const DropoutParams& p) {
    using A = Acc<T>;
    // At least the four numbers that the generator makes at once.
    constexpr int N = SIXTEEN_BYTES<T> < 4 ? 4 : SIXTEEN_BYTES<T>;
    A keep = A(p.keep), inverse = A(1) / keep;
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 row, u64 column, u64 left) {
        u64 at = row * p.columns + column;
        auto x = load_as<A, N>(static_cast<const T*>(p.x) + at, left);
        bool drops[N];
        draw<N>(p.key, p.first_index + row * p.global_columns + column, p.threshold, drops);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) x.at[i] = drops[i] ? A(0) : quotient(x.at[i], keep, inverse);
        store_as<N>(static_cast<T*>(p.out) + at, x, left);
    });
}

}  // namespace fascicle

#define FASCICLE_DROPOUT(suffix, T) \
    FASCICLE_INDEPENDENT(fascicle_dropout_##suffix, fascicle::DropoutParams, 256) { fascicle::dropout<T>(p); }
FASCICLE_FLOATS(FASCICLE_DROPOUT)
