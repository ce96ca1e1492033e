// Attention with products of warpgroups, backward: the kernel of keys and values.
#pragma once

#include "attention_hopper_backward.h"

namespace fascicle {

// Queries of a tile.
constexpr u32 HOPPER_BACKWARD_QUERIES = 64;

// Starts to copy the numbers of a tile of queries; those past the end become 0.
FASCICLE_DEVICE void copy_numbers(const AttentionBackwardParams& p, u64 start, u32 query, u32 end, QueryNumbers& to) {
    u32 i = thread_x() % 64, half = thread_x() / 64 % 2;
    const void* from = half == 0 ? p.log_sum_exp : p.delta;
    float* at = (half == 0 ? to.log_sum_exp : to.delta) + i;
    copy_word_async(at, static_cast<const float*>(from) + start + query + i, query + i < end);
}

// The kernel of keys: each group owns 64 keys and takes, head by head, the queries from the first that meets one of the
// block on.
template <class T, int D, bool Parts>
FASCICLE_DEVICE void attention_backward_keys_hopper(const AttentionBackwardParams& p) {
    constexpr u32 QUERIES = HOPPER_BACKWARD_QUERIES, TILES = QUERIES / 16, STAGES = 3;
    const AttentionSizes& s = p.sizes;
    // What a loop keeps is small: the sums and the operands of a group take most registers.
    BlockPlace place_of = place_of_block(s.kv_heads);
    u32 kv_head = place_of.head, sequence = place_of.sequence, group = u32(s.heads) / u32(s.kv_heads);
    u32 block_first = place_of.from_first * HOPPER_ROWS, first = block_first + 16 * warp_index();
    T* keys = shared_tiles<T>();
    T* values = keys + HOPPER_ROWS * D;
    T* queries = values + HOPPER_ROWS * D;
    T* d_outs = queries + STAGES * QUERIES * D;
    QueryNumbers* numbers = reinterpret_cast<QueryNumbers*>(d_outs + STAGES * QUERIES * D);
    Ring<STAGES, BACKWARD_GROUPS> ring(reinterpret_cast<u64*>(numbers + STAGES));
    i32 place = i32(first) - i32(s.first_query);  // the warp's first key, counted from the first query's
    u32 begin = u32(first_query_of(s, block_first)), end = u32(s.queries);
    // With parts: the ends of the queries that meet a key of the block, the warp's first, and each of the lane's.
    u32 until[HELD_ROWS], shared_end = end;
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        until[r] = Parts ? u32(queries_end_of(s, sequence, first + row_held(2 * r))) : end;
    }
    if (Parts) {
        shared_end = u32(queries_end_of(s, sequence, first));
        end = u32(queries_end_of(s, sequence, block_first + HOPPER_ROWS - 1));
    }
    u32 queries_left = begin < end ? end - begin : 0;
    u32 tiles = (queries_left + QUERIES - 1) / QUERIES, count = tiles * group;
    if (thread_x() == 0) ring.init();
    barrier();
    if (copies<BACKWARD_GROUPS>()) {
        give_registers<BACKWARD_GROUPS>();
        if (count > 0) {
            HeadRows own = key_rows(s, sequence, kv_head);
            GroupSource<D, T>(p.k, own).template fetch<HOPPER_ROWS>(block_first, keys);
            GroupSource<D, T>(p.v, own).template fetch<HOPPER_ROWS>(block_first, values);
        }
        // All heads' tiles one after another.
        u32 query = begin, head = kv_head * group;
        copy_tiles(ring, count, [&](u32 tile) {
            HeadRows others = query_rows(s, sequence, head);
            GroupSource<D, T>(p.q, others).template fetch<QUERIES>(query, queries + tile % STAGES * QUERIES * D);
            GroupSource<D, T>(p.d_out, others).template fetch<QUERIES>(query, d_outs + tile % STAGES * QUERIES * D);
            copy_numbers(p, sums_start(s, sequence, head), query, u32(s.queries), numbers[tile % STAGES]);
            query += QUERIES;
            if (query >= end) {
                query = begin;
                head++;
            }
        });
        return;
    }
    take_registers<BACKWARD_GROUPS>();
    float scale = float(s.scale) * LOG2_E;
    RowSums<D, T> d_k, d_v;
    d_k.clear_all();
    d_v.clear_all();
    if (count > 0) {
        GroupTile<HOPPER_ROWS> k(keys), v(values);
        Sum scores[TILES], d_weights[TILES];
        Operand<T> weights[TILES], d_scores[TILES];
        u32 query = begin;
        Turns<BACKWARD_GROUPS> turns(warp_index() / GROUP_WARPS);
        for (u32 tile = 0; tile < count; tile++) {
            u32 stage = tile % STAGES;
            GroupTile<QUERIES> q(queries + stage * QUERIES * D), d_out(d_outs + stage * QUERIES * D);
            const QueryNumbers& of_tile = numbers[stage];
            ring.await_full(tile);
            score_tile<T, D, QUERIES>(turns, tile + 1 == count, k, q, scores, v, d_out, d_weights);
            FASCICLE_UNROLL
            for (int i = 0; i < int(TILES) * HELD; i++) {
                float& score = scores[i / HELD].at[i % HELD];
                float log_sum_exp = of_tile.log_sum_exp[16 * (i / HELD) + column_held(i % HELD)];
                score = power_of_two(multiply_add(score, scale, -LOG2_E * log_sum_exp));
            }
            // Only tiles on the diagonal, those past the last query, and those where documents end have queries that do not meet
            // a key.
            if (place + 15 > i32(query) || query + QUERIES > shared_end) {
                FASCICLE_UNROLL
                for (int i = 0; i < int(TILES) * HELD; i++) {
                    u32 at_query = query + 16 * u32(i / HELD) + column_held(i % HELD);
                    bool meets = place + i32(row_held(i % HELD)) <= i32(at_query) && at_query < until[row_slot(i % HELD)];
                    if (!meets) scores[i / HELD].at[i % HELD] = 0;
                }
            }
            await_products<0>();
            hold(d_weights);
            FASCICLE_UNROLL
            for (u32 n = 0; n < TILES; n++) {
                weights[n] = as_left<T>(scores[n]);
                FASCICLE_UNROLL
                for (int e = 0; e < HELD; e++) {
                    float delta = of_tile.delta[16 * n + column_held(e)];
                    d_weights[n].at[e] = scores[n].at[e] * (d_weights[n].at[e] - delta);
                }
                d_scores[n] = as_left<T>(d_weights[n]);
            }
            hold(weights);
            hold(d_scores);
            hold(d_k.at);
            hold(d_v.at);
            begin_products();
            start_sums<T, D, QUERIES>(d_v.at, weights, d_out);
            start_sums<T, D, QUERIES>(d_k.at, d_scores, q);
            await_products<0>();
            hold(d_k.at);
            hold(d_v.at);
            ring.release(tile);
            query += QUERIES;
            if (query >= end) query = begin;
        }
    }
    float one[HELD_ROWS], factor[HELD_ROWS];
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        one[r] = 1;
        factor[r] = float(s.scale);
    }
    HeadRows own = key_rows(s, sequence, kv_head);
    d_k.store(p.d_k, own, first, factor);
    d_v.store(p.d_v, own, first, one);
}

}  // namespace fascicle

FASCICLE_BACKWARD_HOPPER(keys, bf16, fascicle::bf16, 64)
FASCICLE_BACKWARD_HOPPER(keys, bf16, fascicle::bf16, 128)
FASCICLE_BACKWARD_HOPPER(keys, f16, fascicle::f16, 64)
FASCICLE_BACKWARD_HOPPER(keys, f16, fascicle::f16, 128)
