// Cross-entropy over a vocabulary that may be sharded.
#pragma once

#include "loops.h"
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
};

struct CombineSoftmaxParams {
    const void* parts;
    const void* targets;
    void* log_sum_exp;
    void* loss;
    u64 shards;
    u64 rows;
    u64 rows_of_run;
    double scale;
};

struct CrossEntropyBackwardParams {
    void* logits;
    const void* targets;
    const void* log_sum_exp;
    const void* d_loss;
    u64 rows;
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

// A maximum, and the sum of exp(x - maximum) so far.
template <class A>
struct Softmax {
    A max = minus_infinity<A>();
    A sum = 0;

    // Adds a pack. A new maximum rescales the sum so far.
    template <int N>
    FASCICLE_DEVICE void add(const Pack<A, N>& x, u64 count) {
        A next = max;
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) next = u64(i) < count ? larger(next, x.at[i]) : next;
        if (!(next > minus_infinity<A>())) return;
        sum = sum * exp_of(max - next);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) sum += u64(i) < count ? exp_of(x.at[i] - next) : A(0);
        max = next;
    }
};

// One block per row: each thread reduces its packs, then the block reduces the threads.
template <class T>
FASCICLE_DEVICE void softmax_statistics(const SoftmaxStatisticsParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    A* scratch = reinterpret_cast<A*>(shared_memory());
    for (u64 row = block_x(); row < p.rows; row += grid_size_x()) {
        const T* logits = static_cast<const T*>(p.logits) + row * p.columns;
        Softmax<A> own;
        each_pack_of_row<N>(p.held, thread_x(), block_size_x(), [&](u64 column, u64 left) {
            own.add(load_as<A, N>(logits + column, left), left);
        });
        A max = block_max(own.max, scratch);
        A sum = block_sum(own.sum == A(0) ? A(0) : own.sum * exp_of(own.max - max), scratch);
        if (thread_x() == 0) {
            u32 target = static_cast<const u32*>(p.targets)[row];
            u64 column = local_target(target, p.first_column, p.held);
            A* out = static_cast<A*>(p.statistics) + 3 * row;
            out[0] = max;
            out[1] = sum;
            out[2] = column == NO_COLUMN ? A(0) : A(widen(logits[column]));
        }
    }
}

// Log-sum-exp of a row minus its target logit, from all shards in order. Also writes the log-sum-exp.
template <class A>
FASCICLE_DEVICE double combine_row(const CombineSoftmaxParams& p, u64 row) {
    const A* parts = static_cast<const A*>(p.parts) + 3 * row;
    u64 step = 3 * p.rows;
    double max = minus_infinity<double>(), sum = 0, target = 0;
    for (u64 shard = 0; shard < p.shards; shard++) max = larger(max, double(parts[shard * step]));
    for (u64 shard = 0; shard < p.shards; shard++) {
        double part = double(parts[shard * step + 1]);
        // A shard without columns has the maximum -inf, and -inf minus -inf would give NaN.
        sum += part == 0 ? 0 : part * exp(double(parts[shard * step]) - max);
        target += double(parts[shard * step + 2]);
    }
    double log_sum_exp = max + log(sum);
    static_cast<A*>(p.log_sum_exp)[row] = A(log_sum_exp);
    return log_sum_exp - target;
}

// One block for each run of rows: a row has only three numbers, and the sum of a run has one order.
template <class A>
FASCICLE_DEVICE void combine_softmax(const CombineSoftmaxParams& p) {
    u64 runs = p.rows / p.rows_of_run;
    for (u64 run = block_x(); run < runs; run += grid_size_x()) {
        double sum = 0;
        for (u64 i = thread_x(); i < p.rows_of_run; i += block_size_x()) {
            u64 row = run * p.rows_of_run + i;
            double loss = combine_row<A>(p, row);
            sum += static_cast<const u32*>(p.targets)[row] == NO_TARGET ? 0.0 : loss;
        }
        sum = block_sum(sum, reinterpret_cast<double*>(shared_memory()));
        A* loss = static_cast<A*>(p.loss) + run;
        if (thread_x() == 0) loss[0] = A(double(loss[0]) + p.scale * sum);
    }
}

template <class T>
FASCICLE_DEVICE void cross_entropy_backward(const CrossEntropyBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    A factor = A(p.scale * double(static_cast<const A*>(p.d_loss)[0]));
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 row, u64 column, u64 left) {
        u32 target = static_cast<const u32*>(p.targets)[row];
        u64 held = target == NO_TARGET ? 0 : p.held;
        u64 at_target = local_target(target, p.first_column, held);
        A log_sum_exp = static_cast<const A*>(p.log_sum_exp)[row];
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
    FASCICLE_COOPERATIVE(fascicle_softmax_combine_##suffix, fascicle::CombineSoftmaxParams, 512) { \
        fascicle::combine_softmax<A>(p);                                                          \
    }
FASCICLE_ACCUMULATORS(FASCICLE_SOFTMAX_COMBINE)
