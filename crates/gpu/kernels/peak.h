// The maximum of a row of logits and the sum of its exponentials, by the tree of tree.h.
#pragma once

#include "tree.h"

namespace fascicle {

// The maximum of a part of a row, and the sum of exp(x - maximum) over it.
template <class A>
struct PeakNode {
    A max, sum;

    static FASCICLE_DEVICE PeakNode empty() { return {minus_infinity<A>(), A(0)}; }

    static FASCICLE_DEVICE PeakNode join(PeakNode left, PeakNode right) {
        bool is_left = left.max >= right.max;
        PeakNode large = is_left ? left : right, small = is_left ? right : left;
        // Of two maxima of minus infinity the difference would be NaN.
        A exponent = small.max == minus_infinity<A>() ? small.max : small.max - large.max;
        return {large.max, multiply_add(small.sum, exp_of(exponent), large.sum)};
    }

    FASCICLE_DEVICE PeakNode exchanged(u32 mask, bool) const { return {exchange(max, mask), exchange(sum, mask)}; }
    FASCICLE_DEVICE PeakNode of_lane(u32 lane) const { return {from_lane(max, lane), from_lane(sum, lane)}; }
};

// Joins two nodes of `width` columns each. Within a leaf, both have the same maximum.
template <class A>
FASCICLE_DEVICE PeakNode<A> join_within(u32 leaf, u32 width, PeakNode<A> left, PeakNode<A> right) {
    return width < leaf ? PeakNode<A>{left.max, left.sum + right.sum} : PeakNode<A>::join(left, right);
}

// A lane's pack of each of K chunks, as accumulators. Behind the end of the row follows minus infinity, whose exponential is 0.
template <class T, int K>
struct LogitsOfChunks {
    Pack<T, SIXTEEN_BYTES<T>> packs[K];
    u64 left;

    FASCICLE_DEVICE LogitsOfChunks(const T* from, u64 left) : left(left) { load_chunks(from, left, packs); }

    FASCICLE_DEVICE Pack<Acc<T>, SIXTEEN_BYTES<T>> of(int k) const {
        auto x = widened<Acc<T>>(packs[k]);
        FASCICLE_UNROLL
        for (int i = 0; i < SIXTEEN_BYTES<T>; i++) {
            if (u64(i) >= left_behind<T>(left, k)) x.at[i] = minus_infinity<Acc<T>>();
        }
        return x;
    }
};

// The nodes of a lane's packs of K chunks. The columns of a leaf, which is at most a chunk and no less than a pack, subtract its
// maximum, so only larger nodes rescale sums.
template <class T, int K>
FASCICLE_DEVICE void peaks_of_chunks(const T* from, u64 left, u32 leaf, PeakNode<Acc<T>> (&nodes)[K]) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    LogitsOfChunks<T, K> logits(from, left);
    FASCICLE_UNROLL
    for (int k = 0; k < K; k++) {
        auto x = logits.of(k);
        nodes[k].max = x.at[0];
        FASCICLE_UNROLL
        for (int i = 1; i < N; i++) nodes[k].max = larger(nodes[k].max, x.at[i]);
    }
    for (u32 mask = 1; mask * N < leaf; mask *= 2) {
        FASCICLE_UNROLL
        for (int k = 0; k < K; k++) nodes[k].max = larger(nodes[k].max, exchange(nodes[k].max, mask));
    }
    FASCICLE_UNROLL
    for (int k = 0; k < K; k++) {
        auto x = logits.of(k);
        SumNode<A> of_pack[N];
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) of_pack[i] = {exp_below(x.at[i], nodes[k].max)};
        nodes[k].sum = join_pack(of_pack).sum;
    }
}

// The node of a lane's pack that holds several leaves, whose columns subtract their own maxima.
template <class T>
FASCICLE_DEVICE PeakNode<Acc<T>> peak_of_short_leaves(const T* from, u64 left, u32 leaf) {
    using Node = PeakNode<Acc<T>>;
    constexpr int N = SIXTEEN_BYTES<T>;
    auto x = LogitsOfChunks<T, 1>(from, left).of(0), maxima = x;
    FASCICLE_UNROLL
    for (int width = 1; width < N; width *= 2) {
        auto before = maxima;
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            if (u32(width) < leaf) maxima.at[i] = larger(before.at[i], before.at[i ^ width]);
        }
    }
    Node nodes[N];
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) nodes[i] = {maxima.at[i], exp_below(x.at[i], maxima.at[i])};
    FASCICLE_UNROLL
    for (int width = 1; width < N; width *= 2) {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i += 2 * width) nodes[i] = join_within(leaf, u32(width), nodes[i], nodes[i + width]);
    }
    return nodes[0];
}

// Chunks that a warp reads at once; `lower/loss.rs` knows it too.
constexpr int PEAK_CHUNKS = 8;

// The node of the columns start..end, in every lane of the warp.
template <class T>
FASCICLE_DEVICE PeakNode<Acc<T>> peak_of_columns(const T* x, u64 start, u64 end, u32 leaf) {
    using Node = PeakNode<Acc<T>>;
    constexpr u32 N = SIXTEEN_BYTES<T>;
    auto join = [&](u32 mask, Node left, Node right) { return join_within(leaf, mask * N, left, right); };
    if (leaf < N) {
        auto of_chunk = [&](u64 column, u64 left, auto& node) { node[0] = peak_of_short_leaves(x + column, left, leaf); };
        return join_columns<1, T, Node>(start, end, of_chunk, join);
    }
    auto of_chunks = [&](u64 column, u64 left, auto& nodes) { peaks_of_chunks(x + column, left, leaf, nodes); };
    return join_columns<PEAK_CHUNKS, T, Node>(start, end, of_chunks, join);
}

}  // namespace fascicle
