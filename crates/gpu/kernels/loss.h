// Cross-entropy over a vocabulary that may be sharded.
#pragma once

#include "parts.h"
#include "reduce.h"
#include "tree.h"

namespace fascicle {

// The target of a row without loss.
constexpr u32 NO_TARGET = 0xffffffffu;
constexpr u64 NO_COLUMN = ~u64(0);

struct SoftmaxStatisticsParams {
    const void* logits;
    const void* targets;
    void* statistics;
    u64 rows;
    u64 columns;
    u64 held;  // local columns that are not padding
    u64 first_column;
    u32 leaf;  // columns of a leaf
    u32 unused;
};

struct CombineSoftmaxParams {
    const void* parts;
    const void* targets;
    void* log_sum_exp;
    void* loss;
    u64 num_parts;
    u64 rows;
    u64 rows_of_run;
    double scale;
    Joins joins;
};

struct CrossEntropyBackwardParams {
    void* logits;
    const void* targets;
    const void* log_sum_exp;
    const void* d_loss;
    u64 rows;
    u64 rows_of_run;
    u64 columns;
    u64 held;  // local columns that are not padding
    u64 first_column;
    double scale;
};

// The local column of a target, if it is among the first `held`.
FASCICLE_DEVICE u64 local_target(u32 target, u64 first_column, u64 held) {
    u64 column = u64(target) - first_column;
    return target != NO_TARGET && target >= first_column && column < held ? column : NO_COLUMN;
}

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

    FASCICLE_DEVICE PeakNode exchanged(u32 mask) const { return {exchange(max, mask), exchange(sum, mask)}; }
    FASCICLE_DEVICE PeakNode of_lane(u32 lane) const { return {from_lane(max, lane), from_lane(sum, lane)}; }
};

// The maximum of the leaf that each of a lane's columns belongs to. A leaf is at most a chunk.
template <int N, class A>
FASCICLE_DEVICE Pack<A, N> maxima_of_leaves(Pack<A, N> x, u64 left, u32 leaf) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) x.at[i] = u64(i) < left ? x.at[i] : minus_infinity<A>();
    FASCICLE_UNROLL
    for (int width = 1; width < N; width *= 2) {
        if (u32(width) >= leaf) return x;
        Pack<A, N> before = x;
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) x.at[i] = larger(before.at[i], before.at[i ^ width]);
    }
    A max = x.at[0];
    for (u32 mask = 1; mask * N < leaf; mask *= 2) max = larger(max, exchange(max, mask));
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) x.at[i] = max;
    return x;
}

// The node of a warp's chunk. The columns of a leaf subtract its maximum, so only larger nodes rescale sums.
template <int N, class A>
FASCICLE_DEVICE PeakNode<A> peak_of_chunk(const Pack<A, N>& x, u64 left, u32 leaf) {
    using Node = PeakNode<A>;
    Pack<A, N> maxima = maxima_of_leaves<N>(x, left, leaf);
    Node nodes[N];
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        A shift = maxima.at[i] == minus_infinity<A>() ? A(0) : maxima.at[i];
        nodes[i] = {maxima.at[i], u64(i) < left ? exp_of(x.at[i] - shift) : A(0)};
    }
    FASCICLE_UNROLL
    for (int width = 1; width < N; width *= 2) {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i += 2 * width) {
            if (u32(width) < leaf) {
                nodes[i].sum += nodes[i + width].sum;
            } else {
                nodes[i] = Node::join(nodes[i], nodes[i + width]);
            }
        }
    }
    u32 mask = 1;
    for (; mask * N < leaf; mask *= 2) nodes[0].sum += exchange(nodes[0].sum, mask);
    return join_lanes(nodes[0], mask);
}

// The node of the columns start..end, in every lane of the warp.
template <class T>
FASCICLE_DEVICE PeakNode<Acc<T>> peak_of_columns(const T* x, u64 start, u64 end, u32 leaf) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    WaitingNodes<PeakNode<A>> waiting;
    for (u64 chunk = start; chunk < end; chunk += WARP * N) {
        u64 column = chunk + lane_index() * N, left = column < end ? end - column : 0;
        waiting.push(peak_of_chunk<N>(load_as<A, N>(x + column, left), left, leaf));
    }
    return waiting.sum();
}

// One block per row. The row is cut into at most as many segments as a warp has lanes, each a node, which the warps take in
// turn. The first warp joins them.
template <class T>
FASCICLE_DEVICE void softmax_statistics(const SoftmaxStatisticsParams& p) {
    using A = Acc<T>;
    using Node = PeakNode<A>;
    Node* of_segments = reinterpret_cast<Node*>(shared_memory());
    u64 segment = WARP * SIXTEEN_BYTES<T>;
    while (segment * WARP < p.held) segment *= 2;
    for (u64 row = block_x(); row < p.rows; row += grid_size_x()) {
        const T* logits = static_cast<const T*>(p.logits) + row * p.columns;
        for (u32 index = warp_index(); index < WARP; index += block_size_x() / WARP) {
            u64 start = index * segment, end = start + segment < p.held ? start + segment : p.held;
            Node node = Node::empty();
            if (start < p.held) node = peak_of_columns(logits, start, end, p.leaf);
            if (lane_index() == 0) of_segments[index] = node;
        }
        barrier();
        if (warp_index() == 0) {
            Node node = join_lanes(of_segments[lane_index()]);
            if (lane_index() == 0) {
                u32 target = static_cast<const u32*>(p.targets)[row];
                u64 column = local_target(target, p.first_column, p.held);
                A* out = static_cast<A*>(p.statistics) + 3 * row;
                out[0] = node.max;
                out[1] = node.sum;
                out[2] = column == NO_COLUMN ? A(0) : A(widen(logits[column]));
            }
        }
        barrier();
    }
}

// Log-sum-exp of a row minus its target logit, from all parts. Also writes the log-sum-exp.
template <class A>
FASCICLE_DEVICE double combine_row(const CombineSoftmaxParams& p, PeakNode<A>* waiting, u64 row) {
    const A* from = static_cast<const A*>(p.parts) + 3 * row;
    u64 step = 3 * p.rows;
    auto node = join_parts(p.num_parts, p.joins, waiting, block_size_x(), [&](u64 part) {
        return PeakNode<A>{from[part * step], from[part * step + 1]};
    });
    // Only one part holds the target.
    double target = 0;
    for (u64 part = 0; part < p.num_parts; part++) target += double(from[part * step + 2]);
    double log_sum_exp = double(node.max) + log(double(node.sum));
    static_cast<A*>(p.log_sum_exp)[row] = A(log_sum_exp);
    return log_sum_exp - target;
}

// One block for each run of rows: a row has only three numbers, and the sum of a run has one order.
template <class A>
FASCICLE_DEVICE void combine_softmax(const CombineSoftmaxParams& p) {
    u64 runs = p.rows / p.rows_of_run;
    double* scratch = reinterpret_cast<double*>(shared_memory());
    auto waiting = reinterpret_cast<PeakNode<A>*>(scratch + block_size_x() / WARP) + thread_x();
    for (u64 run = block_x(); run < runs; run += grid_size_x()) {
        double sum = 0;
        for (u64 i = thread_x(); i < p.rows_of_run; i += block_size_x()) {
            u64 row = run * p.rows_of_run + i;
            double loss = combine_row<A>(p, waiting, row);
            sum += static_cast<const u32*>(p.targets)[row] == NO_TARGET ? 0.0 : loss;
        }
        sum = block_sum(sum, scratch);
        A* loss = static_cast<A*>(p.loss) + run;
        if (thread_x() == 0) loss[0] = A(double(loss[0]) + p.scale * sum);
    }
}

template <class T>
FASCICLE_DEVICE void cross_entropy_backward(const CrossEntropyBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 row, u64 column, u64 left) {
        u32 target = static_cast<const u32*>(p.targets)[row];
        u64 held = target == NO_TARGET ? 0 : p.held;
        u64 at_target = local_target(target, p.first_column, held);
        A log_sum_exp = static_cast<const A*>(p.log_sum_exp)[row];
        // A division costs more than the comparison, which one run of all rows needs alone.
        u64 run = row < p.rows_of_run ? 0 : row / p.rows_of_run;
        A factor = A(p.scale * double(static_cast<const A*>(p.d_loss)[run]));
        T* at = static_cast<T*>(p.logits) + row * p.columns + column;
        auto x = load_as<A, N>(static_cast<const T*>(at), left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            u64 index = column + u64(i);
            A value = exp_of(x.at[i] - log_sum_exp) - (index == at_target ? A(1) : A(0));
            x.at[i] = index < held ? factor * value : A(0);
        }
        store_as<N>(at, x, left);
    });
}

}  // namespace fascicle

#define FASCICLE_LOSS(suffix, T)                                                                                \
    FASCICLE_COOPERATIVE(fascicle_softmax_statistics_##suffix, fascicle::SoftmaxStatisticsParams, 256) {        \
        fascicle::softmax_statistics<T>(p);                                                                     \
    }                                                                                                           \
    FASCICLE_INDEPENDENT(fascicle_cross_entropy_backward_##suffix, fascicle::CrossEntropyBackwardParams, 256) { \
        fascicle::cross_entropy_backward<T>(p);                                                                 \
    }
FASCICLE_FLOATS(FASCICLE_LOSS)

#define FASCICLE_SOFTMAX_COMBINE(suffix, A)                                                       \
    FASCICLE_COOPERATIVE(fascicle_softmax_combine_##suffix, fascicle::CombineSoftmaxParams, 256) { \
        fascicle::combine_softmax<A>(p);                                                          \
    }
FASCICLE_ACCUMULATORS(FASCICLE_SOFTMAX_COMBINE)
