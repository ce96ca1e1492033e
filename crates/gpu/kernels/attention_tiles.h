// Attention on matrix units: 16-bit elements, heads of 64 or 128. Forward.
//
// Each warp of a block owns 16 queries and keeps them, their outputs, and the scores of a tile of keys in registers.
// Keys and values pass through shared memory for all warps. The next tile is copied while the warps work on one.
//
// Source: Dao, "FlashAttention-2", arXiv:2307.08691: the division of queries among warps.
#pragma once

#include "attention.h"
#include "attention_plain.h"
#include "tile.h"

namespace fascicle {

constexpr u32 TILE_WARPS = 4;
constexpr u32 TILE_THREADS = TILE_WARPS * WARP;
// Queries (or keys) that a block owns.
constexpr u32 BLOCK_ROWS = 16 * TILE_WARPS;
// Rows of a shared tile of D columns: 4096 elements.
template <int D> constexpr u32 SHARED_ROWS = 4096 / D;
// Keys of a tile of the forward kernel, which scales its outputs once for each: more where the device has memory for them.
template <int D> constexpr u32 FORWARD_KEYS = WARP == 32 ? 64 : SHARED_ROWS<D>;

// A head's rows, as a thread copies them into shared tiles of D columns: the same columns of every eighth or sixteenth row,
// so that its addresses differ by constants.
template <int D, class T>
struct TileSource {
    static constexpr u32 STEP = TILE_THREADS * 8 / D;
    static_assert(STEP % 8 == 0, "each round has the same order of columns");
    const T* own;  // the thread's first element of row 0
    u64 stride;    // from a row to the next
    u32 count;     // of the head's rows

    FASCICLE_DEVICE TileSource(const void* from, const HeadRows& rows)
        : own(static_cast<const T*>(from) + rows.at(thread_x() / (D / 8)) * D + thread_x() % (D / 8) * 8),
          stride(rows.heads * D), count(u32(rows.count)) {}

    // Starts to copy `Rows` rows from row `first` on; rows past the end become 0.
    template <u32 Rows = SHARED_ROWS<D>>
    FASCICLE_DEVICE void fetch(u32 first, T* tile) const {
        u32 row = thread_x() / (D / 8), column = thread_x() % (D / 8) * 8;
        T* to = tile + swizzled<D>(row, column % 16, column / 16 * 16);
        const T* from = own + first * stride;
        FASCICLE_UNROLL
        for (u32 round = 0; round < Rows / STEP; round++) {
            copy_async(to + round * STEP * D, from + round * STEP * stride, first + row + round * STEP < count);
        }
    }
};

// The 16 rows of a warp as left operands.
template <int D, class T>
struct RowOperands {
    Operand<T> at[D / 16];

    // Loads the rows of a head from row `first` on; rows past the end become 0.
    FASCICLE_DEVICE void load(const void* from, const HeadRows& rows, u64 first) {
        const T* base = static_cast<const T*>(from) + rows.at(first) * D;
        u64 left = first < rows.count ? rows.count - first : 0;
        FASCICLE_UNROLL
        for (int k = 0; k < D / 16; k++) at[k] = load_left(base + 16 * k, rows.heads * D, left);
    }

    // Multiplies these rows with 16 rows of a shared tile, from `row` on.
    FASCICLE_DEVICE Sum times(const T* tile, u32 row) const {
        Sum sum;
        clear(sum);
        FASCICLE_UNROLL
        for (int k = 0; k < D / 16; k++) multiply(sum, at[k], load_right<D>(tile, row, 16 * k));
        return sum;
    }
};

// Multiplies 16 rows of a shared tile, from `left_row` on, with 16 rows of another one, from `row` on.
template <int D, class T>
FASCICLE_DEVICE Sum times_shared(const T* left, u32 left_row, const T* tile, u32 row) {
    Sum sum;
    clear(sum);
    FASCICLE_UNROLL
    for (int k = 0; k < D / 16; k++) {
        multiply(sum, load_left_shared<D>(left, left_row, 16 * k), load_right<D>(tile, row, 16 * k));
    }
    return sum;
}

// 16 rows of sums that a warp accumulates.
template <int D, class T>
struct RowSums {
    Sum at[D / 16];

    FASCICLE_DEVICE void clear_all() {
        FASCICLE_UNROLL
        for (int d = 0; d < D / 16; d++) clear(at[d]);
    }

    // Adds 16 x 16 factors times 16 rows of a shared tile, from `row` on.
    FASCICLE_DEVICE void add(const Operand<T>& factors, const T* tile, u32 row) {
        FASCICLE_UNROLL
        for (int d = 0; d < D / 16; d++) multiply(at[d], factors, load_right_transposed<D>(tile, row, 16 * d));
    }

    // Multiplies each row by its factor. Mostly all are 1, because no row has a new maximum.
    FASCICLE_DEVICE void shrink(const float (&factor)[HELD_ROWS]) {
        bool shrinks = false;
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) shrinks = shrinks || factor[r] != 1;
        if (!shrinks) return;
        FASCICLE_UNROLL
        for (int i = 0; i < D / 16 * HELD; i++) at[i / HELD].at[i % HELD] *= factor[row_slot(i % HELD)];
    }

    // Writes them, times the factor of each row, to the rows of a head from row `first` on, as far as these exist.
    FASCICLE_DEVICE void store(void* to, const HeadRows& rows, u64 first, const float (&factor)[HELD_ROWS]) const {
        T* base = static_cast<T*>(to) + rows.at(first) * D;
        u64 left = first < rows.count ? rows.count - first : 0;
        FASCICLE_UNROLL
        for (int d = 0; d < D / 16; d++) store_sum(base + 16 * d, rows.heads * D, left, at[d], factor);
    }
};

// The softmax of a warp's rows so far: maxima of scores, and each lane's share of the sums.
struct RowSoftmax {
    float max[HELD_ROWS], sum[HELD_ROWS];

    FASCICLE_DEVICE void start() {
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) {
            max[r] = minus_infinity<float>();
            sum[r] = 0;
        }
    }

    // Turns scores into weights; `scale` is in powers of two, and `max` is scaled. Stores in `factor` what earlier outputs
    // shrink by. `Unmet`: a row may have met no key yet.
    template <bool Unmet, int Tiles>
    FASCICLE_DEVICE void soften(Sum (&scores)[Tiles], float scale, float (&factor)[HELD_ROWS]) {
        float base[HELD_ROWS];
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) {
            float next = minus_infinity<float>();
            FASCICLE_UNROLL
            for (int i = 0; i < Tiles * HELD; i++) {
                if (row_slot(i % HELD) == r) next = larger(next, scores[i / HELD].at[i % HELD]);
            }
            next = larger(max[r], scale * along_row(next, [](float a, float b) { return larger(a, b); }));
            base[r] = Unmet && next == minus_infinity<float>() ? 0 : next;
            factor[r] = power_of_two(max[r] - base[r]);
            max[r] = next;
        }
        FASCICLE_UNROLL
        for (int i = 0; i < Tiles * HELD; i++) {
            float& score = scores[i / HELD].at[i % HELD];
            int r = row_slot(i % HELD);
            score = power_of_two(multiply_add(score, scale, -base[r]));
            // The row's first element, which also shrinks the sum so far.
            sum[r] = i == 2 * r ? multiply_add(sum[r], factor[r], score) : sum[r] + score;
        }
    }

    // Writes the logarithms of the rows' sums, as far as the rows exist, and returns what their outputs are multiplied by.
    template <bool Unmet>
    FASCICLE_DEVICE void finish(float* log_sum_exp, u64 first, u64 rows, float (&shares)[HELD_ROWS]) const {
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) {
            float all = along_row(sum[r], [](float a, float b) { return a + b; });
            shares[r] = !Unmet || all > 0 ? 1 / all : 0;
            u64 row = first + row_held(2 * r);
            if (column_held(0) == 0 && row < rows) log_sum_exp[row] = max[r] * LN_2 + log_of(all);
        }
    }
};

// Scores that a query does not meet become minus infinity. Only tiles on the diagonal, the last one, and those where documents
// start have such keys: every query of the warp meets those of `shared_begin..shared_end`. `place` is that of its first query,
// `last` the last key, and `row_begin` the first key that the query of each of the lane's rows meets.
template <bool Parts, int Tiles>
FASCICLE_DEVICE void mask_scores(Sum (&scores)[Tiles], u32 key, u32 place, u32 last, u32 shared_begin, u32 shared_end,
                                 const i32 (&row_begin)[HELD_ROWS]) {
    auto mask = [&](const i32 (&bound)[HELD_ROWS], auto meets) {
        FASCICLE_UNROLL
        for (int i = 0; i < Tiles * HELD; i++) {
            i32 column = 16 * (i / HELD) + i32(column_offset(i % HELD));
            if (!meets(column, bound[row_slot(i % HELD)])) scores[i / HELD].at[i % HELD] = minus_infinity<float>();
        }
    };
    // Bounds are counted from the lane's first column.
    i32 first = i32(key + first_column_held());
    i32 bound[HELD_ROWS];
    if (key + 16 * Tiles > shared_end) {
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) {
            u32 causal = place + row_held(2 * r);
            bound[r] = i32(causal < last ? causal : last) - first;
        }
        mask(bound, [](i32 column, i32 met) { return column <= met; });
    }
    if (Parts && key < shared_begin) {
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) bound[r] = row_begin[r] - first;
        mask(bound, [](i32 column, i32 from) { return column >= from; });
    }
}

// Multiplies the weights of 16 queries on 16 keys by the dropout factors. Two neighbouring keys are drawn at once.
FASCICLE_DEVICE void drop_weights(const AttentionSizes& s, u64 sequence, u64 head, u64 query, u64 key, Sum& weights) {
    u64 start = weight_index(s, sequence, head, query, key);
    FASCICLE_UNROLL
    for (int e = 0; e < HELD; e += 2) {
        bool drops[2];
        draw<2>(s.key, start + row_held(e) * s.global_sequence + column_held(e), s.threshold, drops);
        weights.at[e] *= drops[0] ? 0 : float(s.kept);
        weights.at[e + 1] *= drops[1] ? 0 : float(s.kept);
    }
}

// `Parts`: whether queries meet a part of the keys before them, because of documents or a window, or scores approach a bound.
template <class T, int D, bool Drops, bool Parts>
FASCICLE_DEVICE void attention_forward_tiles(const AttentionForwardParams& p) {
    constexpr u32 KEYS = FORWARD_KEYS<D>;
    // Positions fit in 32 bits: the plain kernels serve longer sequences.
    const AttentionSizes& s = p.sizes;
    BlockPlace place_of = place_of_block(s.heads);
    u64 head = place_of.head, sequence = place_of.sequence;
    HeadRows own = query_rows(s, sequence, head), others = key_rows(s, sequence, head / (s.heads / s.kv_heads));
    // The last queries attend to the most keys, so their blocks start first.
    u32 block_first = place_of.from_last * BLOCK_ROWS;
    u32 first = block_first + 16 * warp_index();
    T* keys = reinterpret_cast<T*>(shared_memory());
    T* values = keys + 2 * KEYS * D;
    TileSource<D, T> all_keys(p.k, others), all_values(p.v, others);
    auto fetch = [&](u32 key, u32 buffer) {
        all_keys.template fetch<KEYS>(key, keys + buffer * KEYS * D);
        all_values.template fetch<KEYS>(key, values + buffer * KEYS * D);
        commit_copies();
    };
    RowOperands<D, T> q;
    q.load(p.q, own, first);
    RowSums<D, T> out;
    out.clear_all();
    RowSoftmax softmax;
    softmax.start();
    ScoreBound<float> bound(s, float(s.scale));
    float scale = (Parts ? bound.factor : float(s.scale)) * LOG2_E;
    // Keys that a query of the block meets, one of the warp, and every one of the warp.
    u32 end = u32(keys_before(s, block_first + BLOCK_ROWS));
    u32 warp_end = u32(keys_before(s, first + 16)), shared_end = u32(keys_before(s, first + 1));
    u32 place = u32(s.first_query) + first, last = u32(s.keys) - 1;  // of the warp's first query, and the last key
    // The first keys that a query of the block meets, one of the warp, and every one of the warp; and the block's first tile.
    u32 warp_begin = 0, shared_begin = 0, begin = 0;
    i32 row_begin[HELD_ROWS];  // of the query of each of the lane's rows
    if (Parts) {
        FASCICLE_UNROLL
        for (int r = 0; r < HELD_ROWS; r++) row_begin[r] = i32(first_key_of(s, sequence, first + row_held(2 * r)));
        warp_begin = u32(first_key_of(s, sequence, first));
        shared_begin = u32(first_key_of(s, sequence, first + 15));
        begin = u32(first_key_of(s, sequence, block_first)) / KEYS * KEYS;
    }
    if (!Parts || begin < end) fetch(begin, 0);
    u32 buffer = 0;
    for (u32 key = begin; key < end; key += KEYS, buffer ^= 1) {
        if (key + KEYS < end) {
            fetch(key + KEYS, buffer ^ 1);
            await_copies<1>();
        } else {
            await_copies<0>();
        }
        barrier();
        if (key < warp_end && (!Parts || key + KEYS > warp_begin)) {
            Sum scores[KEYS / 16];
            FASCICLE_UNROLL
            for (u32 n = 0; n < KEYS / 16; n++) scores[n] = q.times(keys + buffer * KEYS * D, 16 * n);
            if (Parts && bound.bounds) {
                FASCICLE_UNROLL
                for (u32 i = 0; i < KEYS / 16 * HELD; i++) {
                    float& score = scores[i / HELD].at[i % HELD];
                    score = bound.part(score);
                }
            }
            mask_scores<Parts>(scores, key, place, last, shared_begin, shared_end, row_begin);
            float factor[HELD_ROWS];
            softmax.soften<Parts>(scores, scale, factor);
            out.shrink(factor);
            FASCICLE_UNROLL
            for (u32 n = 0; n < KEYS / 16; n++) {
                if (Drops) drop_weights(s, sequence, head, first, key + 16 * n, scores[n]);
                out.add(as_left<T>(scores[n]), values + buffer * KEYS * D, 16 * n);
            }
        }
        barrier();
    }
    float shares[HELD_ROWS];
    softmax.finish<Parts>(static_cast<float*>(p.log_sum_exp) + sums_start(s, sequence, head), first, s.queries, shares);
    out.store(p.out, own, first, shares);
}

}  // namespace fascicle

#define FASCICLE_FORWARD_TILES_OF(suffix, T, D, end, drops, parts)                                               \
    FASCICLE_COOPERATIVE(fascicle_attention_forward_tiles_##suffix##_##D##end, fascicle::AttentionForwardParams, \
                         fascicle::TILE_THREADS) {                                                               \
        fascicle::attention_forward_tiles<T, D, drops, parts>(p);                                                \
    }
#define FASCICLE_FORWARD_TILES(suffix, T, D)                                   \
    FASCICLE_FORWARD_TILES_OF(suffix, T, D, , false, false)                    \
    FASCICLE_FORWARD_TILES_OF(suffix, T, D, _dropout, true, false)             \
    FASCICLE_FORWARD_TILES_OF(suffix, T, D, _parts, false, true)               \
    FASCICLE_FORWARD_TILES_OF(suffix, T, D, _dropout_parts, true, true)
FASCICLE_FORWARD_TILES(bf16, fascicle::bf16, 64)
FASCICLE_FORWARD_TILES(bf16, fascicle::bf16, 128)
FASCICLE_FORWARD_TILES(f16, fascicle::f16, 64)
FASCICLE_FORWARD_TILES(f16, fascicle::f16, 128)
