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
FASCICLE_DEVICE RowStatistics<A> statistics_of_row(const NormSizes& sizes, const void* moments, u64 row) {
    const A* at = static_cast<const A*>(moments) + 2 * row;
    A variance = at[1] / A(sizes.global_columns);
    return {at[0], A(1) / root_of(variance + A(sizes.epsilon))};
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

    FASCICLE_DEVICE MomentsNode exchanged(u32 mask) const {
        return {exchange(mean, mask), exchange(squares, mask), exchange(columns, mask)};
    }
    FASCICLE_DEVICE MomentsNode of_lane(u32 lane) const {
        return {from_lane(mean, lane), from_lane(squares, lane), from_lane(columns, lane)};
    }
};

template <int N, class A>
FASCICLE_DEVICE MomentsNode<A> moments_of_pack(const Pack<A, N>& x, u64 left) {
    MomentsNode<A> nodes[N];
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) nodes[i] = {x.at[i], A(0), 1};
    // The compiler knows the columns of all nodes of a complete pack.
    if (left >= N) return join_pack(nodes);
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) nodes[i].columns = u64(i) < left ? 1 : 0;
    return join_pack(nodes);
}

// LayerNorm: mean and centred squares.
template <class T>
FASCICLE_DEVICE MomentsNode<Acc<T>> centred_moments(const T* x, u64 columns) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    return join_columns<N, MomentsNode<A>>(0, columns, [&](u64 column, u64 left) {
        return left == 0 ? MomentsNode<A>::empty() : moments_of_pack<N>(load_as<A, N>(x + column, left), left);
    });
}

// RMSNorm: squares, and 0 as the mean.
template <class T>
FASCICLE_DEVICE Acc<T> plain_squares(const T* x, u64 columns) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    return join_columns<N, SumNode<A>>(0, columns, [&](u64 column, u64 left) {
        SumNode<A> nodes[N];
        auto pack = load_as<A, N>(x + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) nodes[i] = {pack.at[i] * pack.at[i]};
        return join_pack(nodes);
    }).sum;
}

template <class T>
FASCICLE_DEVICE void moments(const MomentsParams& p) {
    using A = Acc<T>;
    u64 columns = p.sizes.columns;
    each_row_of_warp(p.sizes.rows, [&](u64 row) {
        const T* x = static_cast<const T*>(p.x) + row * columns;
        A mean = 0, squares;
        if (p.sizes.centred) {
            auto node = centred_moments(x, columns);
            mean = node.mean;
            squares = node.squares;
        } else {
            squares = plain_squares(x, columns);
        }
        if (lane_index() == 0) {
            A* out = static_cast<A*>(p.moments) + 2 * row;
            out[0] = mean;
            out[1] = squares;
        }
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

template <class T>
FASCICLE_DEVICE void normalize(const NormalizeParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.sizes.rows, p.sizes.columns, [&](u64 row, u64 column, u64 left) {
        auto statistics = statistics_of_row<A>(p.sizes, p.moments, row);
        u64 at = row * p.sizes.columns + column;
        auto x = load_as<A, N>(static_cast<const T*>(p.x) + at, left);
        auto gain = load_as<A, N>(static_cast<const T*>(p.gain) + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            x.at[i] = (x.at[i] - statistics.mean) * statistics.rstd * (gain.at[i] + A(p.sizes.gain_offset));
        }
        if (p.bias != nullptr) {
            auto bias = load_as<A, N>(static_cast<const T*>(p.bias) + column, left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) x.at[i] += bias.at[i];
        }
        store_as<N>(static_cast<T*>(p.out) + at, x, left);
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
