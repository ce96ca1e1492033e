// Nesterov momentum over many tensors in one launch, and a matrix over its norm.
#pragma once

#include "optimiser.h"

namespace fascicle {

constexpr u32 MOMENTUM_TENSORS = 96;

struct MomentumEntry {
    void* gradients;
    void* momentum;
    u64 len;
    u32 first_block;
    u32 unused;
};

struct MomentumParams {
    const void* factor;
    double beta;
    u32 num_tensors;
    u32 unused;
    MomentumEntry tensors[MOMENTUM_TENSORS];
};

struct UnitNormParams {
    const void* x;
    const void* sum_squares;
    void* out;
    u64 len;
    double epsilon;
    u32 out_dtype;  // as in AdamWEntry
    u32 unused;
};

template <class A>
FASCICLE_DEVICE void momentum(const MomentumParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const MomentumEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    each_pack_of_part<N>(entry, [&](u64 start, u64 left) {
        A* gradients = static_cast<A*>(entry.gradients) + start;
        A* moments = static_cast<A*>(entry.momentum) + start;
        auto g = load<N>(static_cast<const A*>(gradients), left);
        auto m = load<N>(static_cast<const A*>(moments), left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A gradient = A(factor) * g.at[i];
            m.at[i] = gradient + A(p.beta) * (m.at[i] - gradient);
            g.at[i] = gradient + A(p.beta) * (m.at[i] - gradient);
        }
        store<N>(gradients, g, left);
        store<N>(moments, m, left);
    });
}

template <class A>
FASCICLE_DEVICE void unit_norm(const UnitNormParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double squares = static_cast<const double*>(p.sum_squares)[0];
    A factor = A(1.0 / (root_of(squares) + p.epsilon));
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        auto x = load<N>(static_cast<const A*>(p.x) + start, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) x.at[i] *= factor;
        store_compute<A, N>(p.out, p.out_dtype, start, x, left);
    });
}

}  // namespace fascicle

#define FASCICLE_MUON(suffix, A)                                                                                  \
    FASCICLE_INDEPENDENT(fascicle_momentum_##suffix, fascicle::MomentumParams, 256) { fascicle::momentum<A>(p); } \
    FASCICLE_INDEPENDENT(fascicle_unit_norm_##suffix, fascicle::UnitNormParams, 256) { fascicle::unit_norm<A>(p); }
FASCICLE_ACCUMULATORS(FASCICLE_MUON)
