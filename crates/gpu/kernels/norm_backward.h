// LayerNorm and RMSNorm, backward. With xhat = (x - mean) * rstd and g = d_out * gain, or d_out * (1 + gain).
#pragma once

#include "norm.h"

namespace fascicle {

// Sums along rows: of g, and of g * xhat.
struct NormRowSumsParams {
    NormSizes sizes;
    const void* x;
    const void* moments;
    const void* gain;
    const void* d_out;
    void* sums;
};

// Sums down parts of the columns: of d_out * xhat, and behind them of d_out.
struct NormColumnSumsParams {
    NormSizes sizes;
    const void* x;
    const void* moments;
    const void* d_out;
    void* partials;
    u64 rows_of_part;
};

struct NormalizeBackwardParams {
    NormSizes sizes;
    const void* x;
    const void* moments;
    const void* gain;
    const void* d_out;
    const void* sums;
    void* d_x;
};

// Two sums; empty as -0, as in `SumNode`.
template <class A>
struct NormSumsNode {
    A g, g_xhat;

    static FASCICLE_DEVICE NormSumsNode empty() { return {-A(0), -A(0)}; }
    static FASCICLE_DEVICE NormSumsNode join(NormSumsNode left, NormSumsNode right) {
        return {left.g + right.g, left.g_xhat + right.g_xhat};
    }
    FASCICLE_DEVICE NormSumsNode exchanged(u32 mask) const { return {exchange(g, mask), exchange(g_xhat, mask)}; }
    FASCICLE_DEVICE NormSumsNode of_lane(u32 lane) const { return {from_lane(g, lane), from_lane(g_xhat, lane)}; }
};

template <class T>
FASCICLE_DEVICE void norm_row_sums(const NormRowSumsParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 columns = p.sizes.columns;
    each_row_of_warp(p.sizes.rows, [&](u64 row) {
        auto statistics = statistics_of_row<A>(p.sizes, p.moments, row);
        auto sum = join_columns<N, NormSumsNode<A>>(0, columns, [&](u64 column, u64 left) {
            auto x = load_as<A, N>(static_cast<const T*>(p.x) + row * columns + column, left);
            auto d = load_as<A, N>(static_cast<const T*>(p.d_out) + row * columns + column, left);
            auto gain = load_as<A, N>(static_cast<const T*>(p.gain) + column, left);
            NormSumsNode<A> nodes[N];
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                A g = d.at[i] * (gain.at[i] + A(p.sizes.gain_offset));
                nodes[i] = {g, g * ((x.at[i] - statistics.mean) * statistics.rstd)};
                if (u64(i) >= left) nodes[i] = NormSumsNode<A>::empty();
            }
            return join_pack(nodes);
        });
        if (lane_index() == 0) {
            A* sums = static_cast<A*>(p.sums) + 2 * row;
            sums[0] = sum.g;
            sums[1] = sum.g_xhat;
        }
    });
}

template <class T>
FASCICLE_DEVICE void norm_column_sums(const NormColumnSumsParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 rows = p.sizes.rows, columns = p.sizes.columns;
    u64 column = (u64(block_x()) * block_size_x() + thread_x()) * N;
    u64 part = u64(block_y()) * block_size_y() + thread_y();
    u64 first = part * p.rows_of_part;
    if (column >= columns || first >= rows) return;
    u64 end = first + p.rows_of_part < rows ? first + p.rows_of_part : rows;
    u64 left = columns - column;
    Pack<A, N> d_gain{}, d_bias{};
    for (u64 row = first; row < end; row++) {
        auto statistics = statistics_of_row<A>(p.sizes, p.moments, row);
        auto x = load_as<A, N>(static_cast<const T*>(p.x) + row * columns + column, left);
        auto d = load_as<A, N>(static_cast<const T*>(p.d_out) + row * columns + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            d_gain.at[i] += d.at[i] * ((x.at[i] - statistics.mean) * statistics.rstd);
            d_bias.at[i] += d.at[i];
        }
    }
    A* partials = static_cast<A*>(p.partials) + 2 * part * columns + column;
    store<N>(partials, d_gain, left);
    store<N>(partials + columns, d_bias, left);
}

template <class T>
FASCICLE_DEVICE void normalize_backward(const NormalizeBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    A global_columns = A(p.sizes.global_columns);
    each_pack_of_rows<N>(p.sizes.rows, p.sizes.columns, [&](u64 row, u64 column, u64 left) {
        auto statistics = statistics_of_row<A>(p.sizes, p.moments, row);
        const A* sums = static_cast<const A*>(p.sums) + 2 * row;
        A mean_g = p.sizes.centred ? sums[0] / global_columns : A(0);
        A mean_g_xhat = sums[1] / global_columns;
        u64 at = row * p.sizes.columns + column;
        auto x = load_as<A, N>(static_cast<const T*>(p.x) + at, left);
        auto d = load_as<A, N>(static_cast<const T*>(p.d_out) + at, left);
        auto gain = load_as<A, N>(static_cast<const T*>(p.gain) + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A xhat = (x.at[i] - statistics.mean) * statistics.rstd;
            A g = d.at[i] * (gain.at[i] + A(p.sizes.gain_offset));
            d.at[i] = statistics.rstd * (g - (mean_g + xhat * mean_g_xhat));
        }
        store_as<N>(static_cast<T*>(p.d_x) + at, d, left);
    });
}

}  // namespace fascicle

#define FASCICLE_NORM_BACKWARD(suffix, T)                                                                 \
    FASCICLE_COOPERATIVE(fascicle_norm_row_sums_##suffix, fascicle::NormRowSumsParams, 256) {             \
        fascicle::norm_row_sums<T>(p);                                                                    \
    }                                                                                                     \
    FASCICLE_INDEPENDENT(fascicle_norm_column_sums_##suffix, fascicle::NormColumnSumsParams, 256) {       \
        fascicle::norm_column_sums<T>(p);                                                                 \
    }                                                                                                     \
    FASCICLE_INDEPENDENT(fascicle_normalize_backward_##suffix, fascicle::NormalizeBackwardParams, 256) {  \
        fascicle::normalize_backward<T>(p);                                                               \
    }
FASCICLE_FLOATS(FASCICLE_NORM_BACKWARD)
