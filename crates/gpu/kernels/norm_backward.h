// LayerNorm and RMSNorm, backward. With xhat = (x - mean) * rstd and g = d_out * gain, or d_out * (1 + gain).
#pragma once

#include "norm.h"

namespace fascicle {

// Sums along rows: of g, and of g * xhat. Also writes the statistics of the rows.
struct NormRowSumsParams {
    NormSizes sizes;
    const void* x;
    const void* moments;
    const void* gain;
    const void* d_out;
    void* sums;
    void* statistics;
};

// Sums down parts of the columns: of d_out * xhat, and behind them of d_out.
struct NormColumnSumsParams {
    NormSizes sizes;
    const void* x;
    const void* statistics;
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
    FASCICLE_DEVICE NormSumsNode exchanged(u32 mask, bool) const { return {exchange(g, mask), exchange(g_xhat, mask)}; }
    FASCICLE_DEVICE NormSumsNode of_lane(u32 lane) const { return {from_lane(g, lane), from_lane(g_xhat, lane)}; }
};

// Turns a pack of d_out into one of d_x, from the means of g and of g * xhat over the full row.
template <class A, int N>
FASCICLE_DEVICE void gradient_of_pack(Pack<A, N>& d, const Pack<A, N>& x, const Pack<A, N>& factors, RowStatistics<A> statistics,
                                      A mean_g, A mean_g_xhat) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        A xhat = (x.at[i] - statistics.mean) * statistics.rstd;
        d.at[i] = statistics.rstd * (d.at[i] * factors.at[i] - multiply_add(xhat, mean_g_xhat, mean_g));
    }
}

// The sums of a lane's packs of K chunks.
template <class T, int K>
FASCICLE_DEVICE void norm_sums_of_chunks(const NormRowSumsParams& p, u64 row, RowStatistics<Acc<T>> statistics, u64 column,
                                         u64 left, NormSumsNode<Acc<T>> (&nodes)[K]) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 at = row * p.sizes.columns + column;
    Pack<T, N> x[K], d_out[K], gain[K];
    load_chunks(static_cast<const T*>(p.x) + at, left, x);
    load_chunks(static_cast<const T*>(p.d_out) + at, left, d_out);
    load_chunks(static_cast<const T*>(p.gain) + column, left, gain);
    FASCICLE_UNROLL
    for (int k = 0; k < K; k++) {
        auto x_k = widened<A>(x[k]), d = widened<A>(d_out[k]), gains = widened<A>(gain[k]);
        NormSumsNode<A> of_pack[N];
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A g = d.at[i] * (gains.at[i] + A(p.sizes.gain_offset));
            of_pack[i] = {g, g * ((x_k.at[i] - statistics.mean) * statistics.rstd)};
            if (u64(i) >= left_behind<T>(left, k)) of_pack[i] = NormSumsNode<A>::empty();
        }
        nodes[k] = join_pack(of_pack);
    }
}

template <class T>
FASCICLE_DEVICE void norm_row_sums(const NormRowSumsParams& p) {
    using A = Acc<T>;
    each_row_of_warp(p.sizes.rows, [&](u64 row) {
        RowStatistics<A> statistics[1];
        statistics_of_rows(p.sizes, p.moments, row, statistics);
        auto sum = join_columns<4, T, NormSumsNode<A>>(0, p.sizes.columns, [&](u64 column, u64 left, auto& nodes) {
            norm_sums_of_chunks<T>(p, row, statistics[0], column, left, nodes);
        });
        if (lane_index() == 0) {
            A* sums = static_cast<A*>(p.sums) + 2 * row;
            sums[0] = sum.g;
            sums[1] = sum.g_xhat;
            static_cast<RowStatistics<A>*>(p.statistics)[row] = statistics[0];
        }
    });
}

// A thread sums its columns down the rows of its part, in order; it reads several rows before it adds them.
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
    each_rows<8>(first, end, [&](auto count, u64 row) {
        constexpr int R = decltype(count)::value;
        Pack<T, N> x[R], d_out[R];
        RowStatistics<A> statistics[R];
        load_each(static_cast<const T*>(p.x) + row * columns + column, columns, left, x);
        load_each(static_cast<const T*>(p.d_out) + row * columns + column, columns, left, d_out);
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) statistics[r] = static_cast<const RowStatistics<A>*>(p.statistics)[row + r];
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            auto x_r = widened<A>(x[r]), d = widened<A>(d_out[r]);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                A xhat = (x_r.at[i] - statistics[r].mean) * statistics[r].rstd;
                d_gain.at[i] = multiply_add(d.at[i], xhat, d_gain.at[i]);
                d_bias.at[i] += d.at[i];
            }
        }
    });
    A* partials = static_cast<A*>(p.partials) + 2 * part * columns + column;
    store<N>(partials, d_gain, left);
    store<N>(partials + columns, d_bias, left);
}

template <class T>
FASCICLE_DEVICE void normalize_backward(const NormalizeBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    A global_columns = A(p.sizes.global_columns);
    u64 columns = p.sizes.columns;
    each_pack_of_groups<N, NORM_ROWS>(p.sizes.rows, columns, [&](u64 first, u64 end, u64 column, u64 left) {
        auto gain = load<N>(static_cast<const T*>(p.gain) + column, left);
        each_rows<NORM_ROWS>(first, end, [&](auto count, u64 row) {
            constexpr int R = decltype(count)::value;
            Pack<T, N> x[R], d_out[R];
            load_each(static_cast<const T*>(p.x) + row * columns + column, columns, left, x);
            load_each(static_cast<const T*>(p.d_out) + row * columns + column, columns, left, d_out);
            RowStatistics<A> statistics[R];
            A mean_g[R], mean_g_xhat[R];
            const A* sums = static_cast<const A*>(p.sums) + 2 * row;
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                mean_g[r] = sums[2 * r];
                mean_g_xhat[r] = sums[2 * r + 1];
            }
            statistics_of_rows(p.sizes, p.moments, row, statistics);
            auto factors = factors_of<A>(gain, p.sizes);
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                mean_g[r] = p.sizes.centred ? mean_g[r] / global_columns : A(0);
                mean_g_xhat[r] /= global_columns;
                auto d = widened<A>(d_out[r]);
                gradient_of_pack(d, widened<A>(x[r]), factors, statistics[r], mean_g[r], mean_g_xhat[r]);
                store_as<N>(static_cast<T*>(p.d_x) + (row + r) * columns + column, d, left);
            }
        });
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
