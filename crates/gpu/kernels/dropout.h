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
    RoundKeys keys;  // of the key's seed
    double scale;    // 1 / (1 - probability)
    u32 threshold;
    u32 unused;
};

// Packs that a thread reads before it draws for one; `lower/dropout.rs` knows it too.
constexpr int DROPOUT_PACKS = 2;

// Drops elements of rows, of which a thread reads K packs at a time. `drops_of(first, drops)` draws for a pack whose first element
// has that index.
template <class T, int N, int K, class DropsOf>
FASCICLE_DEVICE void dropout_rows(const DropoutParams& p, DropsOf drops_of) {
    using A = Acc<T>;
    A scale = A(p.scale);
    each_packs_of_rows<N, K>(p.rows, p.columns, [&](auto count, u64 row, u64 start, u64 step, u64 left) {
        constexpr int R = decltype(count)::value;
        u64 at = row * p.columns + start, first = p.first_index + row * p.global_columns + start;
        Pack<T, N> packs[R];
        load_each(static_cast<const T*>(p.x) + at, step, left, packs);
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            bool drops[N];
            drops_of(first + r * step, drops);
            auto x = widened<A>(packs[r]);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) x.at[i] = drops[i] ? A(0) : x.at[i] * scale;
            store_as<N>(static_cast<T*>(p.out) + at + r * step, x, left);
        }
    });
}

// Either every pack of a thread begins a block of the generator, or any may begin within one. One choice for the grid, because the
// code for the latter draws several blocks more.
template <class T>
FASCICLE_DEVICE void dropout(const DropoutParams& p) {
    // At least the four numbers that the generator makes at once.
    constexpr int N = SIXTEEN_BYTES<T> < 4 ? 4 : SIXTEEN_BYTES<T>;
    if (p.first_index % 4 == 0 && (p.rows == 1 || p.global_columns % 4 == 0)) {
        dropout_rows<T, N, DROPOUT_PACKS>(p, [&](u64 first, bool (&drops)[N]) {
            draw_blocks<N>(p.keys, p.key.sequence, first / 4, p.threshold, drops);
        });
    } else {
        dropout_rows<T, N, 1>(p, [&](u64 first, bool (&drops)[N]) { draw<N>(p.key, first, p.threshold, drops); });
    }
}

}  // namespace fascicle

#define FASCICLE_DROPOUT(suffix, T) \
    FASCICLE_INDEPENDENT(fascicle_dropout_##suffix, fascicle::DropoutParams, 256) { fascicle::dropout<T>(p); }
FASCICLE_FLOATS(FASCICLE_DROPOUT)
