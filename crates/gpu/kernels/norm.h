// LayerNorm and RMSNorm, forward: statistics of rows, and the rows normalised by them.
#pragma once

#include "parts.h"
#include "tree.h"

namespace fascicle {

struct NormSizes {
    u64 rows;
    u64 columns;
    double global_columns;
    double epsilon;
    u32 centred;  // 1 for LayerNorm, 0 for RMSNorm
    u32 gain_offset;  // added to each gain
};

struct MomentsParams {
    NormSizes sizes;
    const void* x;
    void* moments;
};

struct CombineMomentsParams {
    NormSizes sizes;
    const void* parts;
    void* moments;
    u64 num_parts;
    Joins joins;
    u32 widths[MOST_PARTS];  // columns of each part
};

struct NormalizeParams {
    NormSizes sizes;
    const void* x;
    const void* moments;
    const void* gain;
    const void* bias;  // or null
    void* out;
};

// Mean and reciprocal of the standard deviation (or of the root mean square) of a row.
template <class A>
struct RowStatistics { A mean, rstd; };

template <class A>
FASCICLE_DEVICE RowStatistics<A> statistics_of(const NormSizes& sizes, A mean, A squares) {
    A variance = squares / A(sizes.global_columns);
    return {mean, A(1) / root_of(variance + A(sizes.epsilon))};
}

// Those of R rows from `row` on, whose moments are all loaded before one is used.
template <int R, class A>
FASCICLE_DEVICE void statistics_of_rows(const NormSizes& sizes, const void* moments, u64 row, RowStatistics<A> (&of_rows)[R]) {
    const A* at = static_cast<const A*>(moments) + 2 * row;
    A means[R], squares[R];
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) {
        means[r] = at[2 * r];
        squares[r] = at[2 * r + 1];
    }
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) of_rows[r] = statistics_of(sizes, means[r], squares[r]);
}

// The factors of a pack of columns.
template <class A, int N, class T>
FASCICLE_DEVICE Pack<A, N> factors_of(const Pack<T, N>& gain, const NormSizes& sizes) {
    auto factors = widened<A>(gain);
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) factors.at[i] += A(sizes.gain_offset);
    return factors;
}

// Normalises a pack of columns.
template <class A, int N>
FASCICLE_DEVICE void normalize_pack(Pack<A, N>& x, RowStatistics<A> statistics, const Pack<A, N>& factors) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) x.at[i] = (x.at[i] - statistics.mean) * statistics.rstd * factors.at[i];
}

template <class A, int N>
FASCICLE_DEVICE void add_pack(Pack<A, N>& x, const Pack<A, N>& addends) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) x.at[i] += addends.at[i];
}

// The moments of a part of a row, joined as Chan, Golub and LeVeque do ("Updating formulae and a pairwise algorithm for
// computing sample variances", 1979): a sum of squares about zero would lose the digits of a small variance.
template <class A>
struct MomentsNode {
    A mean, squares;
    u32 columns;

    static FASCICLE_DEVICE MomentsNode empty() { return {A(0), A(0), 0}; }

    static FASCICLE_DEVICE MomentsNode join(MomentsNode left, MomentsNode right) {
        u32 columns = left.columns + right.columns;
        A difference = right.mean - left.mean, squares = left.squares + right.squares;
        if (left.columns == right.columns) {
            A half = A(left.columns) * A(0.5);
            return {(left.mean + right.mean) * A(0.5), multiply_add(difference * difference, half, squares), columns};
        }
        if (right.columns == 0) return left;
        A share = A(right.columns) / A(columns);
        A factor = A(left.columns) * share;
        return {multiply_add(difference, share, left.mean), multiply_add(difference * difference, factor, squares), columns};
    }

    FASCICLE_DEVICE MomentsNode exchanged(u32 mask, bool alike) const {
        return {exchange(mean, mask), exchange(squares, mask), alike ? columns : exchange(columns, mask)};
    }
    FASCICLE_DEVICE MomentsNode of_lane(u32 lane) const {
        return {from_lane(mean, lane), from_lane(squares, lane), from_lane(columns, lane)};
    }
};

// The node of a pack of which `left` elements are there: its moments, or its sum of squares.
template <int N, class A>
FASCICLE_DEVICE void node_of_pack(const Pack<A, N>& x, u64 left, MomentsNode<A>& node) {
    MomentsNode<A> nodes[N];
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) nodes[i] = {x.at[i], A(0), 1};
    // The compiler knows the columns of all nodes of a complete pack.
    if (left < N) {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) nodes[i].columns = u64(i) < left ? 1 : 0;
        node = join_pack(nodes);
    } else {
        node = join_pack(nodes);
    }
}

template <int N, class A>
FASCICLE_DEVICE void node_of_pack(const Pack<A, N>& x, u64, SumNode<A>& node) {
    SumNode<A> nodes[N];
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) nodes[i] = {x.at[i] * x.at[i]};
    node = join_pack(nodes);
}

// Chunks that a warp reads at once.
constexpr int MOMENTS_CHUNKS = 4;

// The node of the columns start..end of a row, in every lane of the warp; `start` is a multiple of a chunk.
template <class Node, class T>
FASCICLE_DEVICE Node join_row(const T* row, u64 start, u64 end) {
    return join_columns<MOMENTS_CHUNKS, T, Node>(start, end, [&](u64 column, u64 left, auto& nodes) {
        constexpr int K = sizeof(nodes) / sizeof(nodes[0]);
        Pack<T, SIXTEEN_BYTES<T>> packs[K];
        load_chunks(row + column, left, packs);
        FASCICLE_UNROLL
        for (int k = 0; k < K; k++) node_of_pack(widened<Acc<T>>(packs[k]), left_behind<T>(left, k), nodes[k]);
    });
}

// LayerNorm: mean and centred squares. RMSNorm: 0 and squares.
template <class A> struct RowMoments { A mean, squares; };
template <class A> FASCICLE_DEVICE RowMoments<A> moments_of(MomentsNode<A> node) { return {node.mean, node.squares}; }
template <class A> FASCICLE_DEVICE RowMoments<A> moments_of(SumNode<A> node) { return {A(0), node.sum}; }

template <class T>
FASCICLE_DEVICE void moments(const MomentsParams& p) {
    using A = Acc<T>;
    u64 columns = p.sizes.columns;
    each_row_of_warp(p.sizes.rows, [&](u64 row) {
        const T* x = static_cast<const T*>(p.x) + row * columns;
        RowMoments<A> found = p.sizes.centred ? moments_of(join_row<MomentsNode<A>>(x, 0, columns))
                                              : moments_of(join_row<SumNode<A>>(x, 0, columns));
        if (lane_index() == 0) static_cast<RowMoments<A>*>(p.moments)[row] = found;
    });
}

// One thread for each row.
template <class A>
FASCICLE_DEVICE void combine_moments(const CombineMomentsParams& p) {
    using Node = MomentsNode<A>;
    Node* waiting = reinterpret_cast<Node*>(shared_memory()) + thread_x();
    u64 row = u64(block_x()) * block_size_x() + thread_x();
    if (row >= p.sizes.rows) return;
    const A* from = static_cast<const A*>(p.parts) + 2 * row;
    u64 step = 2 * p.sizes.rows;
    Node node = join_parts(p.num_parts, p.joins, waiting, block_size_x(), [&](u64 part) {
        return Node{from[part * step], from[part * step + 1], p.widths[part]};
    });
    A* out = static_cast<A*>(p.moments) + 2 * row;
    out[0] = node.mean;
    out[1] = node.squares;
}

// Rows that a thread normalises at a time; `lower/norm.rs` knows it too.
constexpr int NORM_ROWS = 4;

template <class T>
FASCICLE_DEVICE void normalize(const NormalizeParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 columns = p.sizes.columns;
    each_pack_of_groups<N, NORM_ROWS>(p.sizes.rows, columns, [&](u64 first, u64 end, u64 column, u64 left) {
        auto gain = load<N>(static_cast<const T*>(p.gain) + column, left);
        Pack<T, N> bias{};
        if (p.bias != nullptr) bias = load<N>(static_cast<const T*>(p.bias) + column, left);
        each_rows<NORM_ROWS>(first, end, [&](auto count, u64 row) {
            constexpr int R = decltype(count)::value;
            Pack<T, N> packs[R];
            RowStatistics<A> statistics[R];
            load_each(static_cast<const T*>(p.x) + row * columns + column, columns, left, packs);
            statistics_of_rows(p.sizes, p.moments, row, statistics);
            auto factors = factors_of<A>(gain, p.sizes), offsets = widened<A>(bias);
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                auto x = widened<A>(packs[r]);
                normalize_pack(x, statistics[r], factors);
                if (p.bias != nullptr) add_pack(x, offsets);
                store_as<N>(static_cast<T*>(p.out) + (row + r) * columns + column, x, left);
            }
        });
    });
}

}  // namespace fascicle

#define FASCICLE_NORM(suffix, T)                                                                                      \
    FASCICLE_COOPERATIVE(fascicle_norm_moments_##suffix, fascicle::MomentsParams, 256) { fascicle::moments<T>(p); }   \
    FASCICLE_INDEPENDENT(fascicle_normalize_##suffix, fascicle::NormalizeParams, 256) { fascicle::normalize<T>(p); }
FASCICLE_FLOATS(FASCICLE_NORM)

#define FASCICLE_NORM_COMBINE(suffix, A)                                                        \
    FASCICLE_COOPERATIVE(fascicle_norm_combine_##suffix, fascicle::CombineMomentsParams, 64) {  \
        fascicle::combine_moments<A>(p);                                                        \
    }
FASCICLE_ACCUMULATORS(FASCICLE_NORM_COMBINE)
