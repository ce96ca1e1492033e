// Attention on matrix units, backward: one kernel for the gradients of queries, one for those of keys and values.
//
// Both use the forward kernel's loop: a warp keeps 16 rows of its own and takes the rows of the other side tile by
// tile. The kernel for keys computes scores with keys along rows, so that each warp sums over queries alone.
#pragma once

#include "attention_plain_backward.h"
#include "attention_tiles.h"

namespace fascicle {

// The kernel of queries: each warp owns 16 queries and takes the keys up to the last that one of them meets; with documents or a
// window (`Parts`), from the first on.
template <class T, int D, bool Drops, bool Parts>
FASCICLE_DEVICE void attention_backward_queries_tiles(const AttentionBackwardParams& p) {
    constexpr u32 KEYS = SHARED_ROWS<D>;
    const AttentionSizes& s = p.sizes;
    BlockPlace place_of = place_of_block(s.heads);
    u64 head = place_of.head, sequence = place_of.sequence;
    HeadRows own = query_rows(s, sequence, head), others = key_rows(s, sequence, head / (s.heads / s.kv_heads));
    u32 block_first = place_of.from_last * BLOCK_ROWS;
    u32 first = block_first + 16 * warp_index();
    T* keys = reinterpret_cast<T*>(shared_memory());
    T* values = keys + 2 * KEYS * D;
    TileSource<D, T> all_keys(p.k, others), all_values(p.v, others);
    auto fetch = [&](u32 key, u32 buffer) {
        all_keys.fetch(key, keys + buffer * KEYS * D);
        all_values.fetch(key, values + buffer * KEYS * D);
        commit_copies();
    };
    RowOperands<D, T> q, d_out;
    q.load(p.q, own, first);
    d_out.load(p.d_out, own, first);
    RowSums<D, T> d_q;
    d_q.clear_all();
    ScoreBound<float> bound(s, float(s.scale));
    float scale = (Parts ? bound.factor : float(s.scale)) * LOG2_E, log_sum_exp[HELD_ROWS], delta[HELD_ROWS];
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        u64 row = first + row_held(2 * r), at = sums_start(s, sequence, head) + row;
        log_sum_exp[r] = row < s.queries ? static_cast<const float*>(p.log_sum_exp)[at] * LOG2_E : 0;
        delta[r] = row < s.queries ? static_cast<const float*>(p.delta)[at] : 0;
    }
    u32 end = u32(keys_before(s, block_first + BLOCK_ROWS)), warp_end = u32(keys_before(s, first + 16));
    u32 met[HELD_ROWS];  // the keys that the query of each of the lane's rows meets
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) met[r] = u32(keys_before(s, first + row_held(2 * r) + 1));
    u32 from[HELD_ROWS], warp_begin = 0, begin = 0;  // the first keys that these queries meet, and the block's first tile
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) from[r] = Parts ? u32(first_key_of(s, sequence, first + row_held(2 * r))) : 0;
    if (Parts) {
        warp_begin = u32(first_key_of(s, sequence, first));
        begin = u32(first_key_of(s, sequence, block_first)) / KEYS * KEYS;
    }
    if (begin < end) fetch(begin, 0);
    u32 buffer = 0;
    for (u32 key = begin; key < end; key += KEYS, buffer ^= 1) {
        if (key + KEYS < end) {
            fetch(key + KEYS, buffer ^ 1);
            await_copies<1>();
        } else {
            await_copies<0>();
        }
        barrier();
        const T *k = keys + buffer * KEYS * D, *v = values + buffer * KEYS * D;
        FASCICLE_ROLLED
        for (u32 n = 0; n < KEYS && key + n < warp_end; n += 16) {
            if (Parts && key + n + 16 <= warp_begin) continue;
            Sum scores = q.times(k, n), d_weights = d_out.times(v, n);
            if (Drops) drop_weights(s, sequence, head, first, key + n, d_weights);
            FASCICLE_UNROLL
            for (int e = 0; e < HELD; e++) {
                int r = row_slot(e);
                u32 at_key = key + n + column_held(e);
                bool meets = at_key < met[r] && (!Parts || at_key >= from[r]);
                float part = Parts ? bound.part(scores.at[e]) : scores.at[e];
                float weight = meets ? power_of_two(multiply_add(part, scale, -log_sum_exp[r])) : 0;
                scores.at[e] = weight * (d_weights.at[e] - delta[r]) * (Parts ? bound.slope(part) : 1);
            }
            d_q.add(as_left<T>(scores), k, n);
        }
        barrier();
    }
    float factor[HELD_ROWS];
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) factor[r] = float(s.scale);
    d_q.store(p.d_q, own, first, factor);
}

// Numbers of the queries of a shared tile: the logarithms of sums, as powers of two, and the deltas.
struct QueryNumbers { float log_sum_exp[64], delta[64]; };

FASCICLE_DEVICE void fetch_numbers(const AttentionBackwardParams& p, u64 sequence, u64 head, u64 query, u32 count,
                                   QueryNumbers& to) {
    const AttentionSizes& s = p.sizes;
    for (u32 i = thread_x(); i < count; i += TILE_THREADS) {
        u64 at = sums_start(s, sequence, head) + query + i;
        bool exists = query + i < s.queries;
        to.log_sum_exp[i] = exists ? static_cast<const float*>(p.log_sum_exp)[at] * LOG2_E : 0;
        to.delta[i] = exists ? static_cast<const float*>(p.delta)[at] : 0;
    }
}

// One bit for each element that a lane holds, with keys along rows: whether its weight is dropped. A loop of its own
// before the multiplications, because the generator's words would take the registers of the sums.
FASCICLE_DEVICE u32 dropped_of_keys(const AttentionSizes& s, u64 sequence, u64 head, u32 query, u32 key) {
    u32 bits = 0;
    FASCICLE_ROLLED
    for (int e = 0; e < HELD; e++) {
        bool drops[1];
        u64 index = weight_index(s, sequence, head, query + column_held(e), key + row_held(e));
        draw<1>(s.key, index, s.threshold, drops);
        bits |= u32(drops[0]) << e;
    }
    return bits;
}

// Whether the keys and values that a block owns stay in shared memory, because with heads of 128 its warps have no registers
// for them. AMD's blocks have no memory for them either: 64 KiB.
template <int D> constexpr bool SHARES_OWN_ROWS = D > 64 && WARP == 32;

// The kernel of keys: each warp owns 16 keys and takes, head by head, the queries from the first that meets one of them on.
template <class T, int D, bool Drops, bool Parts>
FASCICLE_DEVICE void attention_backward_keys_tiles(const AttentionBackwardParams& p) {
    constexpr u32 QUERIES = SHARED_ROWS<D>;
    const AttentionSizes& s = p.sizes;
    BlockPlace place_of = place_of_block(s.kv_heads);
    u64 kv_head = place_of.head, sequence = place_of.sequence, group = s.heads / s.kv_heads;
    HeadRows own = key_rows(s, sequence, kv_head);
    u32 block_first = place_of.from_first * BLOCK_ROWS, first = block_first + 16 * warp_index();
    T* queries = reinterpret_cast<T*>(shared_memory());
    T* d_outs = queries + 2 * QUERIES * D;
    T* own_keys = d_outs + 2 * QUERIES * D;
    T* own_values = own_keys + (SHARES_OWN_ROWS<D> ? BLOCK_ROWS * D : 0);
    QueryNumbers* numbers = reinterpret_cast<QueryNumbers*>(own_values + (own_values - own_keys));
    u32 own_row = 16 * warp_index();
    // The first queries that meet a key of the block, and one of the warp.
    u32 begin = u32(first_query_of(s, block_first)), warp_begin = u32(first_query_of(s, first));
    i32 place = i32(first) - i32(s.first_query);  // the warp's first key, counted from the first query's
    // All heads' tiles one after another, so that the next tile is always being copied. There are none if no query meets
    // the block.
    u32 end = u32(s.queries), warp_end = end;
    // With parts: the ends of the queries that meet a key of the block, one of the warp, and each of the lane's.
    u32 until[HELD_ROWS];
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        until[r] = Parts ? u32(queries_end_of(s, sequence, first + row_held(2 * r))) : end;
    }
    if (Parts) {
        end = u32(queries_end_of(s, sequence, block_first + BLOCK_ROWS - 1));
        warp_end = u32(queries_end_of(s, sequence, first + 15));
    }
    u32 queries_left = begin < end ? end - begin : 0;
    u32 tiles = (queries_left + QUERIES - 1) / QUERIES, count = tiles * u32(group);
    auto head_of = [&](u32 tile) { return kv_head * group + tile / tiles; };
    auto query_of = [&](u32 tile) { return begin + tile % tiles * QUERIES; };
    auto fetch = [&](u32 tile, u32 buffer) {
        u64 head = head_of(tile);
        u32 query = query_of(tile);
        HeadRows others = query_rows(s, sequence, head);
        TileSource<D, T>(p.q, others).fetch(query, queries + buffer * QUERIES * D);
        TileSource<D, T>(p.d_out, others).fetch(query, d_outs + buffer * QUERIES * D);
        fetch_numbers(p, sequence, head, query, QUERIES, numbers[buffer]);
        commit_copies();
    };
    RowOperands<D, T> k, v;
    if (SHARES_OWN_ROWS<D> && count > 0) {
        TileSource<D, T>(p.k, own).template fetch<BLOCK_ROWS>(block_first, own_keys);
        TileSource<D, T>(p.v, own).template fetch<BLOCK_ROWS>(block_first, own_values);
    } else if (D <= 64) {
        k.load(p.k, own, first);
        v.load(p.v, own, first);
    }
    RowSums<D, T> d_k, d_v;
    d_k.clear_all();
    d_v.clear_all();
    ScoreBound<float> bound(s, float(s.scale));
    float scale = (Parts ? bound.factor : float(s.scale)) * LOG2_E;
    if (count > 0) fetch(0, 0);
    u32 buffer = 0;
    for (u32 tile = 0; tile < count; tile++, buffer ^= 1) {
        if (tile + 1 < count) {
            fetch(tile + 1, buffer ^ 1);
            await_copies<1>();
        } else {
            await_copies<0>();
        }
        barrier();
        const T *q = queries + buffer * QUERIES * D, *d_out = d_outs + buffer * QUERIES * D;
        const QueryNumbers& own_numbers = numbers[buffer];
        u32 query = query_of(tile);
        FASCICLE_ROLLED
        for (u32 n = 0; n < QUERIES; n += 16) {
            // Queries that meet no key of the warp, or are past the last one, contribute nothing.
            if (query + n + 15 < warp_begin || query + n >= warp_end) continue;
            u32 dropped = Drops ? dropped_of_keys(s, sequence, head_of(tile), query + n, first) : 0;
            // With no room for keys and values at all, they are read again, from the nearest cache.
            if (D > 64 && !SHARES_OWN_ROWS<D>) k.load(p.k, own, first);
            Sum weights = SHARES_OWN_ROWS<D> ? times_shared<D>(own_keys, own_row, q, n) : k.times(q, n);
            Sum kept_weights, slopes;
            FASCICLE_UNROLL
            for (int e = 0; e < HELD; e++) {
                u32 at_query = query + n + column_held(e);
                bool meets = place + i32(row_held(e)) <= i32(at_query) && at_query < until[row_slot(e)];
                float part = Parts ? bound.part(weights.at[e]) : weights.at[e];
                float score = multiply_add(part, scale, -own_numbers.log_sum_exp[n + column_held(e)]);
                weights.at[e] = meets ? power_of_two(score) : 0;
                float kept = !Drops ? 1 : dropped >> e & 1 ? 0 : float(s.kept);
                kept_weights.at[e] = weights.at[e] * kept;
                if (Parts) slopes.at[e] = bound.slope(part);
            }
            d_v.add(as_left<T>(kept_weights), d_out, n);
            if (D > 64 && !SHARES_OWN_ROWS<D>) v.load(p.v, own, first);
            Sum scores = SHARES_OWN_ROWS<D> ? times_shared<D>(own_values, own_row, d_out, n) : v.times(d_out, n);
            FASCICLE_UNROLL
            for (int e = 0; e < HELD; e++) {
                float delta = own_numbers.delta[n + column_held(e)];
                float d_score = multiply_add(kept_weights.at[e], scores.at[e], -weights.at[e] * delta);
                scores.at[e] = Parts ? d_score * slopes.at[e] : d_score;
            }
            d_k.add(as_left<T>(scores), q, n);
        }
        barrier();
    }
    float one[HELD_ROWS], factor[HELD_ROWS];
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        one[r] = 1;
        factor[r] = float(s.scale);
    }
    d_k.store(p.d_k, own, first, factor);
    d_v.store(p.d_v, own, first, one);
}

}  // namespace fascicle

#define FASCICLE_BACKWARD_TILES_OF(side, suffix, T, D, end, drops, parts)                                         \
    FASCICLE_COOPERATIVE(fascicle_attention_backward_##side##_tiles_##suffix##_##D##end,                          \
                         fascicle::AttentionBackwardParams, fascicle::TILE_THREADS) {                             \
        fascicle::attention_backward_##side##_tiles<T, D, drops, parts>(p);                                       \
    }
#define FASCICLE_BACKWARD_TILES_FOR(side, suffix, T, D)                                  \
    FASCICLE_BACKWARD_TILES_OF(side, suffix, T, D, , false, false)                       \
    FASCICLE_BACKWARD_TILES_OF(side, suffix, T, D, _dropout, true, false)                \
    FASCICLE_BACKWARD_TILES_OF(side, suffix, T, D, _parts, false, true)                  \
    FASCICLE_BACKWARD_TILES_OF(side, suffix, T, D, _dropout_parts, true, true)
#define FASCICLE_BACKWARD_TILES(suffix, T, D)             \
    FASCICLE_BACKWARD_TILES_FOR(queries, suffix, T, D)    \
    FASCICLE_BACKWARD_TILES_FOR(keys, suffix, T, D)
FASCICLE_BACKWARD_TILES(bf16, fascicle::bf16, 64)
FASCICLE_BACKWARD_TILES(bf16, fascicle::bf16, 128)
FASCICLE_BACKWARD_TILES(f16, fascicle::f16, 64)
FASCICLE_BACKWARD_TILES(f16, fascicle::f16, 128)
