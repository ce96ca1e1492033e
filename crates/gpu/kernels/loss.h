// Cross-entropy over a vocabulary that may be sharded.
#pragma once

#include "parts.h"
#include "peak.h"
#include "reduce.h"

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

// One block per row. The row is cut into at most as many segments as a warp has lanes, each a node, which the warps take in
// turn. The first warp joins them.
template <class T>
FASCICLE_DEVICE void softmax_statistics(const SoftmaxStatisticsParams& p) {
    using A = Acc<T>;
    using Node = PeakNode<A>;
    Node* of_segments = reinterpret_cast<Node*>(shared_memory());
    u64 segment = PEAK_CHUNKS * CHUNK<T>;
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

// The gradients of a pack of logits, of which the first `held` are not padding; element `target` is the row's target.
template <class A, int N>
FASCICLE_DEVICE void logit_gradients(Pack<A, N>& x, A log_sum_exp, A factor, u32 held, u32 target) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        A value = exp_below(x.at[i], log_sum_exp) - (u32(i) == target ? A(1) : A(0));
        x.at[i] = u32(i) < held ? factor * value : A(0);
    }
}

template <class T>
FASCICLE_DEVICE void cross_entropy_backward(const CrossEntropyBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 thread = u64(block_x()) * block_size_x() + thread_x(), threads = u64(grid_size_x()) * block_size_x();
    u64 row_step = u64(grid_size_y()) * block_size_y();
    for (u64 row = u64(block_y()) * block_size_y() + thread_y(); row < p.rows; row += row_step) {
        u32 target = static_cast<const u32*>(p.targets)[row];
        u64 held = target == NO_TARGET ? 0 : p.held;
        u64 at_target = local_target(target, p.first_column, held);
        A log_sum_exp = static_cast<const A*>(p.log_sum_exp)[row];
        // A division costs more than the comparison, which one run of all rows needs alone.
        u64 run = row < p.rows_of_run ? 0 : row / p.rows_of_run;
        A factor = A(p.scale * double(static_cast<const A*>(p.d_loss)[run]));
        T* logits = static_cast<T*>(p.logits) + row * p.columns;
        each_packs_of_run<N, 2>(p.columns, thread, threads, [&](auto count, u64 start, u64 step, u64 left) {
            constexpr int R = decltype(count)::value;
            Pack<T, N> packs[R];
            load_each(static_cast<const T*>(logits) + start, step, left, packs);
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                u64 column = start + r * step;
                auto x = widened<A>(packs[r]);
                u32 of_pack = held <= column ? 0 : held - column < N ? u32(held - column) : N;
                logit_gradients(x, log_sum_exp, factor, of_pack, at_target - column < N ? u32(at_target - column) : N);
                store_as<N>(logits + column, x, left);
            }
        });
    }
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
