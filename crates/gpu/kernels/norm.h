// LayerNorm and RMSNorm, forward: statistics of rows, and the rows normalised by them.
#pragma once

#include "loops.h"
#include "reduce.h"

namespace fascicle {

struct NormSizes {
    u64 rows;
    u64 columns;
    double global_columns;
    double epsilon;
    u32 centred;  // 1 for LayerNorm, 0 for RMSNorm
    u32 unused;
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
    u64 shards;
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

template <class A, class T>
FASCICLE_DEVICE A warp_row_sum(const T* x, u64 columns) {
    constexpr int N = SIXTEEN_BYTES<T>;
    A sum = 0;
    each_pack_of_row<N>(columns, lane_index(), WARP, [&](u64 column, u64 left) {
        auto pack = load_as<A, N>(x + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) sum += pack.at[i];
    });
    return warp_sum(sum);
}

template <class A, class T>
FASCICLE_DEVICE A warp_centred_squares(const T* x, u64 columns, A mean) {
    constexpr int N = SIXTEEN_BYTES<T>;
    A sum = 0;
    each_pack_of_row<N>(columns, lane_index(), WARP, [&](u64 column, u64 left) {
        auto pack = load_as<A, N>(x + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A difference = u64(i) < left ? pack.at[i] - mean : A(0);
            sum += difference * difference;
        }
    });
    return warp_sum(sum);
}

// Two passes: a sum of squares about zero would lose the digits of a small variance. The second pass finds the row in
// the cache.
template <class T>
FASCICLE_DEVICE void moments(const MomentsParams& p) {
    using A = Acc<T>;
    u64 columns = p.sizes.columns;
    each_row_of_warp(p.sizes.rows, [&](u64 row) {
        const T* x = static_cast<const T*>(p.x) + row * columns;
        A mean = p.sizes.centred ? warp_row_sum<A>(x, columns) / A(columns) : A(0);
        A squares = warp_centred_squares<A>(x, columns, mean);
        if (lane_index() == 0) {
            A* out = static_cast<A*>(p.moments) + 2 * row;
            out[0] = mean;
            out[1] = squares;
        }
    });
}

// Shards are equally long, so the mean is the mean of means. Each shard's squares are shifted from its own mean to
// that.
template <class A>
FASCICLE_DEVICE void combine_moments(const CombineMomentsParams& p) {
    u64 row = u64(block_x()) * block_size_x() + thread_x();
    if (row >= p.sizes.rows) return;
    const A* parts = static_cast<const A*>(p.parts) + 2 * row;
    u64 step = 2 * p.sizes.rows;
    A mean = 0, squares = 0;
    for (u64 shard = 0; shard < p.shards; shard++) mean += parts[shard * step];
    mean /= A(p.shards);
    for (u64 shard = 0; shard < p.shards; shard++) {
        A difference = parts[shard * step] - mean;
        squares += parts[shard * step + 1] + A(p.sizes.columns) * difference * difference;
    }
    A* out = static_cast<A*>(p.moments) + 2 * row;
    out[0] = mean;
    out[1] = squares;
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
        for (int i = 0; i < N; i++) x.at[i] = (x.at[i] - statistics.mean) * statistics.rstd * gain.at[i];
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
    FASCICLE_INDEPENDENT(fascicle_norm_combine_##suffix, fascicle::CombineMomentsParams, 256) { \
        fascicle::combine_moments<A>(p);                                                        \
    }
FASCICLE_ACCUMULATORS(FASCICLE_NORM_COMBINE)
