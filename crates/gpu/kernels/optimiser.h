// AdamW, stochastic gradient descent and Lion over many tensors in one launch.
#pragma once

#include "squares.h"

namespace fascicle {

// Elements of one tensor that a block updates.
constexpr u64 UPDATE_PART = 8192;
constexpr u32 ADAMW_TENSORS = 48;
constexpr u32 SGD_TENSORS = 64;
constexpr u32 LION_TENSORS = 64;

struct AdamWEntry {
    void* weights;
    const void* gradients;
    void* first;
    void* second;
    void* compute;  // or null
    u64 len;
    double keep;  // 1 - rate * weight decay
    u32 first_block;
    u32 compute_dtype;  // 0 f64, 1 f32, 2 bf16, 3 f16
};

struct AdamWParams {
    const void* factor;
    double one_minus_beta1;
    double beta2;
    double one_minus_beta2;
    double root_of_correction2;
    double epsilon;
    double step_size;
    u32 num_tensors;
    u32 unused;
    AdamWEntry tensors[ADAMW_TENSORS];
};

struct SgdEntry {
    void* weights;
    const void* gradients;
    void* velocity;  // or null
    void* compute;   // or null
    u64 len;
    double weight_decay;
    u32 first_block;
    u32 compute_dtype;  // as in AdamWEntry
};

struct SgdParams {
    const void* factor;
    double rate;
    double momentum;
    u32 num_tensors;
    u32 unused;
    SgdEntry tensors[SGD_TENSORS];
};

struct LionEntry {
    void* weights;
    const void* gradients;
    void* momentum;
    void* compute;  // or null
    u64 len;
    double keep;  // 1 - rate * weight decay
    u32 first_block;
    u32 compute_dtype;  // as in AdamWEntry
};

struct LionParams {
    const void* factor;
    double one_minus_beta1;
    double one_minus_beta2;
    double rate;
    u32 num_tensors;
    u32 unused;
    LionEntry tensors[LION_TENSORS];
};

template <class A, int N>
FASCICLE_DEVICE void store_compute(void* compute, u32 dtype, u64 start, const Pack<A, N>& weights, u64 left) {
    if (compute == nullptr) return;
    if (dtype == 0) store_as<N>(static_cast<double*>(compute) + start, weights, left);
    if (dtype == 1) store_as<N>(static_cast<float*>(compute) + start, weights, left);
    if (dtype == 2) store_as<N>(static_cast<bf16*>(compute) + start, weights, left);
    if (dtype == 3) store_as<N>(static_cast<f16*>(compute) + start, weights, left);
}

// Calls `body(start, left)` for the packs of this block's part of a tensor.
template <int N, class Entry, class Body>
FASCICLE_DEVICE void each_pack_of_part(const Entry& entry, Body body) {
    u64 part = u64(block_x() - entry.first_block) * UPDATE_PART;
    u64 end = part + UPDATE_PART < entry.len ? part + UPDATE_PART : entry.len;
    each_pack_of_row<N>(end - part, thread_x(), block_size_x(),
                        [&](u64 at, u64 left) { body(part + at, left); });
}

// The new weight of one element, in PyTorch's order of operations.
template <class A, class Params>
FASCICLE_DEVICE A adamw_weight(const Params& p, A keep, A weight, A first, A second) {
    A root = root_of(second) / A(p.root_of_correction2) + A(p.epsilon);
    return keep * weight - A(p.step_size) * (first / root);
}

// New moments and weights of one pack.
template <class A, int N>
FASCICLE_DEVICE void adamw_update(const AdamWParams& p, A keep, A factor, Pack<A, N>& w, const Pack<A, N>& gradient,
                                  Pack<A, N>& m, Pack<A, N>& v) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        A g = factor * gradient.at[i];
        m.at[i] += A(p.one_minus_beta1) * (g - m.at[i]);
        v.at[i] = A(p.beta2) * v.at[i] + A(p.one_minus_beta2) * g * g;
        w.at[i] = adamw_weight(p, keep, w.at[i], m.at[i], v.at[i]);
    }
}

template <class A>
FASCICLE_DEVICE void adamw(const AdamWParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const AdamWEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    each_pack_of_part<N>(entry, [&](u64 start, u64 left) {
        A* weights = static_cast<A*>(entry.weights) + start;
        A* first = static_cast<A*>(entry.first) + start;
        A* second = static_cast<A*>(entry.second) + start;
        auto w = load<N>(static_cast<const A*>(weights), left);
        auto g = load<N>(static_cast<const A*>(entry.gradients) + start, left);
        auto m = load<N>(static_cast<const A*>(first), left);
        auto v = load<N>(static_cast<const A*>(second), left);
        adamw_update<A, N>(p, A(entry.keep), A(factor), w, g, m, v);
        store<N>(weights, w, left);
        store<N>(first, m, left);
        store<N>(second, v, left);
        store_compute<A, N>(entry.compute, entry.compute_dtype, start, w, left);
    });
}

template <class A>
FASCICLE_DEVICE void sgd(const SgdParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const SgdEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    each_pack_of_part<N>(entry, [&](u64 start, u64 left) {
        A* weights = static_cast<A*>(entry.weights) + start;
        auto w = load<N>(static_cast<const A*>(weights), left);
        auto u = load<N>(static_cast<const A*>(entry.gradients) + start, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) u.at[i] = A(factor) * u.at[i] + A(entry.weight_decay) * w.at[i];
        if (entry.velocity != nullptr) {
            A* velocity = static_cast<A*>(entry.velocity) + start;
            auto old = load<N>(static_cast<const A*>(velocity), left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) u.at[i] += A(p.momentum) * old.at[i];
            store<N>(velocity, u, left);
        }
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) w.at[i] -= A(p.rate) * u.at[i];
        store<N>(weights, w, left);
        store_compute<A, N>(entry.compute, entry.compute_dtype, start, w, left);
    });
}

template <class A>
FASCICLE_DEVICE void lion(const LionParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const LionEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    each_pack_of_part<N>(entry, [&](u64 start, u64 left) {
        A* weights = static_cast<A*>(entry.weights) + start;
        A* momentum = static_cast<A*>(entry.momentum) + start;
        auto w = load<N>(static_cast<const A*>(weights), left);
        auto g = load<N>(static_cast<const A*>(entry.gradients) + start, left);
        auto m = load<N>(static_cast<const A*>(momentum), left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A towards = A(factor) * g.at[i] - m.at[i];
            A direction = m.at[i] + A(p.one_minus_beta1) * towards;
            A step = direction > A(0) ? A(p.rate) : direction < A(0) ? -A(p.rate) : A(0);
            w.at[i] = A(entry.keep) * w.at[i] - step;
            m.at[i] += A(p.one_minus_beta2) * towards;
        }
        store<N>(weights, w, left);
        store<N>(momentum, m, left);
        store_compute<A, N>(entry.compute, entry.compute_dtype, start, w, left);
    });
}

}  // namespace fascicle

#define FASCICLE_OPTIMISER(suffix, A)                                                                       \
    FASCICLE_INDEPENDENT(fascicle_adamw_##suffix, fascicle::AdamWParams, 256) { fascicle::adamw<A>(p); }    \
    FASCICLE_INDEPENDENT(fascicle_sgd_##suffix, fascicle::SgdParams, 256) { fascicle::sgd<A>(p); }          \
    FASCICLE_INDEPENDENT(fascicle_lion_##suffix, fascicle::LionParams, 256) { fascicle::lion<A>(p); }
FASCICLE_ACCUMULATORS(FASCICLE_OPTIMISER)
