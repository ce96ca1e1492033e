// Sums of rows, and softmax.
#pragma once

#include "reduce.h"
#include "tree.h"

namespace fascicle {

struct RowSumParams {
    const void* x;
    void* out;
    u64 rows;
    u64 columns;
};

struct SoftmaxParams {
    const void* x;
    void* out;
    u64 rows;
    u64 columns;
    u32 log;
    u32 unused;
};

struct SoftmaxBackwardParams {
    const void* out;
    const void* d_out;
    void* d_x;
    u64 rows;
    u64 columns;
    u32 log;
    u32 unused;
};

// The sums of a lane's packs of K chunks.
template <class T, int K>
FASCICLE_DEVICE void sums_of_chunks(const T* from, u64 left, SumNode<Acc<T>> (&nodes)[K]) {
    using Node = SumNode<Acc<T>>;
    constexpr int N = SIXTEEN_BYTES<T>;
    Pack<T, N> packs[K];
    load_chunks(from, left, packs);
    FASCICLE_UNROLL
    for (int k = 0; k < K; k++) {
        Node of_pack[N];
        auto x = widened<Acc<T>>(packs[k]);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) of_pack[i] = u64(i) < left_behind<T>(left, k) ? Node{x.at[i]} : Node::empty();
        nodes[k] = join_pack(of_pack);
    }
}

template <class T>
FASCICLE_DEVICE void row_sum(const RowSumParams& p) {
    using A = Acc<T>;
    each_row_of_warp(p.rows, [&](u64 row) {
        const T* x = static_cast<const T*>(p.x) + row * p.columns;
        auto node = join_columns<4, T, SumNode<A>>(0, p.columns, [&](u64 column, u64 left, auto& nodes) {
            sums_of_chunks(x + column, left, nodes);
        });
        if (lane_index() == 0) static_cast<T*>(p.out)[row] = narrow<T>(p.columns == 0 ? A(0) : node.sum);
    });
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

// A block reads a row twice: for its maximum and sum, and for the result.
template <class T>
FASCICLE_DEVICE void softmax(const SoftmaxParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    A* scratch = reinterpret_cast<A*>(shared_memory());
    for (u64 row = block_x(); row < p.rows; row += grid_size_x()) {
        const T* x = static_cast<const T*>(p.x) + row * p.columns;
        T* out = static_cast<T*>(p.out) + row * p.columns;
        Softmax<A> own;
        each_pack_of_row<N>(p.columns, thread_x(), block_size_x(), [&](u64 column, u64 left) {
            own.add(load_as<A, N>(x + column, left), left);
        });
        A max = block_max(own.max, scratch);
        A sum = block_sum(own.sum == A(0) ? A(0) : own.sum * exp_of(own.max - max), scratch);
        A log_sum = log_of(sum);
        each_pack_of_row<N>(p.columns, thread_x(), block_size_x(), [&](u64 column, u64 left) {
            auto pack = load_as<A, N>(x + column, left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                A shifted = pack.at[i] - max;
                pack.at[i] = p.log ? shifted - log_sum : exp_of(shifted) / sum;
            }
            store_as<N>(out + column, pack, left);
        });
    }
}

template <class T>
FASCICLE_DEVICE void softmax_backward(const SoftmaxBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    A* scratch = reinterpret_cast<A*>(shared_memory());
    for (u64 row = block_x(); row < p.rows; row += grid_size_x()) {
        const T* out = static_cast<const T*>(p.out) + row * p.columns;
        const T* d_out = static_cast<const T*>(p.d_out) + row * p.columns;
        T* d_x = static_cast<T*>(p.d_x) + row * p.columns;
        A sum = 0;
        each_pack_of_row<N>(p.columns, thread_x(), block_size_x(), [&](u64 column, u64 left) {
            auto y = load_as<A, N>(out + column, left);
            auto d = load_as<A, N>(d_out + column, left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) sum += p.log ? d.at[i] : y.at[i] * d.at[i];
        });
        sum = block_sum(sum, scratch);
        each_pack_of_row<N>(p.columns, thread_x(), block_size_x(), [&](u64 column, u64 left) {
            auto y = load_as<A, N>(out + column, left);
            auto d = load_as<A, N>(d_out + column, left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                d.at[i] = p.log ? d.at[i] - exp_of(y.at[i]) * sum : y.at[i] * (d.at[i] - sum);
            }
            store_as<N>(d_x + column, d, left);
        });
    }
}

}  // namespace fascicle

#define FASCICLE_ROWS(suffix, T)                                                                                     \
    FASCICLE_COOPERATIVE(fascicle_row_sum_##suffix, fascicle::RowSumParams, 256) { fascicle::row_sum<T>(p); }        \
    FASCICLE_COOPERATIVE(fascicle_softmax_##suffix, fascicle::SoftmaxParams, 256) { fascicle::softmax<T>(p); }       \
    FASCICLE_COOPERATIVE(fascicle_softmax_backward_##suffix, fascicle::SoftmaxBackwardParams, 256) {                 \
        fascicle::softmax_backward<T>(p);                                                                            \
    }
FASCICLE_FLOATS(FASCICLE_ROWS)
