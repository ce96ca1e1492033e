// Shared by all kernels of causal self-attention: sizes, addresses of a head's rows, dropout, and the row sums that the
// backward pass needs.
#pragma once

#include "loops.h"
#include "philox.h"
#include "reduce.h"

namespace fascicle {

struct AttentionSizes {
    u64 sequences;
    u64 sequence;
    u64 heads;
    u64 kv_heads;
    u64 head_size;
    double scale;
    RandomKey key;
    u64 first_sequence;
    u64 first_head;
    u64 global_heads;
    double kept;  // 1 / (1 - probability)
    u32 threshold;
    u32 drops;        // whether there is dropout
    u32 tile_rows;    // of the plain kernels: rows that a block owns
    u32 tile_others;  // and rows that it reads at a time
};

struct AttentionDeltaParams {
    AttentionSizes sizes;
    const void* out;
    const void* d_out;
    void* delta;  // sequences x heads x sequence
};

// Elements from a sequence's first element to token `row` of head `head`, with `heads` heads per token.
FASCICLE_DEVICE u64 head_start(const AttentionSizes& s, u64 sequence, u64 row, u64 head, u64 heads) {
    return ((sequence * s.sequence + row) * heads + head) * s.head_size;
}

// Offset of the numbers of a head's tokens in an array of sequences x heads x sequence.
FASCICLE_DEVICE u64 sums_start(const AttentionSizes& s, u64 sequence, u64 head) {
    return (sequence * s.heads + head) * s.sequence;
}

// The generator's index of the weight of `query` on `key`.
FASCICLE_DEVICE u64 weight_index(const AttentionSizes& s, u64 sequence, u64 head, u64 query, u64 key) {
    u64 global_head = (s.first_sequence + sequence) * s.global_heads + s.first_head + head;
    return (global_head * s.sequence + query) * s.sequence + key;
}

// 0 for a weight that is dropped, else 1 / (1 - probability).
template <class A>
FASCICLE_DEVICE A kept_factor(const AttentionSizes& s, u64 index) {
    bool drops[1];
    draw<1>(s.key, index, s.threshold, drops);
    return drops[0] ? A(0) : A(s.kept);
}

// delta: the sum over a head's elements of output times output gradient, which equals that of weight times weight
// gradient.
template <class T>
FASCICLE_DEVICE void attention_delta(const AttentionDeltaParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    const AttentionSizes& s = p.sizes;
    each_row_of_warp(s.sequences * s.sequence * s.heads, [&](u64 row) {
        A sum = 0;
        each_pack_of_row<N>(s.head_size, lane_index(), WARP, [&](u64 column, u64 left) {
            u64 at = row * s.head_size + column;
            auto out = load_as<A, N>(static_cast<const T*>(p.out) + at, left);
            auto d_out = load_as<A, N>(static_cast<const T*>(p.d_out) + at, left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) sum = multiply_add(out.at[i], d_out.at[i], sum);
        });
        sum = warp_sum(sum);
        u64 token = row / s.heads, head = row % s.heads;
        u64 at = sums_start(s, token / s.sequence, head) + token % s.sequence;
        if (lane_index() == 0) static_cast<A*>(p.delta)[at] = sum;
    });
}

}  // namespace fascicle

#define FASCICLE_ATTENTION_DELTA(suffix, T)                                                            \
    FASCICLE_COOPERATIVE(fascicle_attention_delta_##suffix, fascicle::AttentionDeltaParams, 256) {     \
        fascicle::attention_delta<T>(p);                                                               \
    }
FASCICLE_FLOATS(FASCICLE_ATTENTION_DELTA)
