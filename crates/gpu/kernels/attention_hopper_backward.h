// Attention with products of warpgroups, backward: one kernel for the gradients of queries, one for those of keys and values
// (attention_hopper_keys.h).
//
// Both keep 64 rows per warpgroup and take the rows of the other side tile by tile. While one group turns the scores of a tile
// into the operands of its sums, the matrix units work for the other group, so each group waits for all of its own products.
#pragma once

#include "attention_hopper.h"
#include "attention_tiles_backward.h"

namespace fascicle {

// Keys of a tile of the kernel of queries. The kernel of keys takes smaller tiles, because its sums take more registers.
constexpr u32 HOPPER_BACKWARD_KEYS = 128;
// Multiplying groups of a block, and queries or keys that it owns.
constexpr u32 BACKWARD_GROUPS = 2;
constexpr u32 HOPPER_ROWS = BACKWARD_GROUPS * GROUP_ROWS;

// What both kernels begin a tile with: in its turn, a group starts its rows' scores with a tile, and the gradients of its weights,
// and waits for the scores.
template <class T, int D, int Columns>
FASCICLE_DEVICE void score_tile(const Turns<BACKWARD_GROUPS>& turns, bool is_last, GroupTile<HOPPER_ROWS> own,
                                GroupTile<Columns> tile, Sum (&scores)[Columns / 16], GroupTile<HOPPER_ROWS> own_gradients,
                                GroupTile<Columns> tile_gradients, Sum (&d_weights)[Columns / 16]) {
    u32 row = turns.group * GROUP_ROWS;
    turns.await();
    hold(scores);
    hold(d_weights);
    begin_products();
    start_scores<T, D, Columns>(scores, own, row, tile);
    start_scores<T, D, Columns>(d_weights, own_gradients, row, tile_gradients);
    turns.pass(is_last);
    await_products<1>();
    hold(scores);
}

// The kernel of queries: each group owns 64 queries and takes the keys up to the last that one of the block meets.
template <class T, int D, bool Parts>
FASCICLE_DEVICE void attention_backward_queries_hopper(const AttentionBackwardParams& p) {
    constexpr u32 KEYS = HOPPER_BACKWARD_KEYS, TILES = KEYS / 16, STAGES = 2;
    const AttentionSizes& s = p.sizes;
    BlockPlace place_of = place_of_block(s.heads);
    u64 head = place_of.head, sequence = place_of.sequence;
    HeadRows own = query_rows(s, sequence, head), others = key_rows(s, sequence, head / (s.heads / s.kv_heads));
    u32 block_first = place_of.from_last * HOPPER_ROWS;
    u32 first = block_first + 16 * warp_index();
    T* queries = shared_tiles<T>();
    T* d_outs = queries + HOPPER_ROWS * D;
    T* keys = d_outs + HOPPER_ROWS * D;
    T* values = keys + STAGES * KEYS * D;
    Ring<STAGES, BACKWARD_GROUPS> ring(reinterpret_cast<u64*>(values + STAGES * KEYS * D));
    float scale = float(s.scale) * LOG2_E, log_sum_exp[HELD_ROWS], delta[HELD_ROWS];
    u32 met[HELD_ROWS], from[HELD_ROWS];  // the keys that the query of each of the lane's rows meets: from..met
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        u64 row = first + row_held(2 * r), at = sums_start(s, sequence, head) + row;
        log_sum_exp[r] = row < s.queries ? static_cast<const float*>(p.log_sum_exp)[at] * LOG2_E : 0;
        delta[r] = row < s.queries ? static_cast<const float*>(p.delta)[at] : 0;
        met[r] = u32(keys_before(s, row + 1));
        from[r] = Parts ? u32(first_key_of(s, sequence, row)) : 0;
    }
    u32 end = u32(keys_before(s, block_first + HOPPER_ROWS)), begin = 0;
    // The keys that every query of the warp meets.
    u32 shared_end = u32(keys_before(s, first + 1)), shared_begin = 0;
    if (Parts) {
        shared_begin = u32(first_key_of(s, sequence, first + 15));
        begin = u32(first_key_of(s, sequence, block_first)) / KEYS * KEYS;
    }
    u32 tiles = begin < end ? (end - begin + KEYS - 1) / KEYS : 0;
    if (thread_x() == 0) ring.init();
    barrier();
    if (copies<BACKWARD_GROUPS>()) {
        give_registers<BACKWARD_GROUPS>();
        GroupSource<D, T> all_keys(p.k, others), all_values(p.v, others);
        if (tiles > 0) {
            GroupSource<D, T>(p.q, own).template fetch<HOPPER_ROWS>(block_first, queries);
            GroupSource<D, T>(p.d_out, own).template fetch<HOPPER_ROWS>(block_first, d_outs);
        }
        copy_tiles(ring, tiles, [&](u32 tile) {
            all_keys.template fetch<KEYS>(begin + tile * KEYS, keys + tile % STAGES * KEYS * D);
            all_values.template fetch<KEYS>(begin + tile * KEYS, values + tile % STAGES * KEYS * D);
        });
        return;
    }
    take_registers<BACKWARD_GROUPS>();
    RowSums<D, T> d_q;
    d_q.clear_all();
    if (tiles > 0) {
        GroupTile<HOPPER_ROWS> q(queries), d_out(d_outs);
        Sum scores[TILES], d_weights[TILES];
        Operand<T> d_scores[TILES];
        Turns<BACKWARD_GROUPS> turns(warp_index() / GROUP_WARPS);
        for (u32 tile = 0; tile < tiles; tile++) {
            u32 key = begin + tile * KEYS;
            GroupTile<KEYS> k(keys + tile % STAGES * KEYS * D), v(values + tile % STAGES * KEYS * D);
            ring.await_full(tile);
            score_tile<T, D, KEYS>(turns, tile + 1 == tiles, q, k, scores, d_out, v, d_weights);
            FASCICLE_UNROLL
            for (int i = 0; i < int(TILES) * HELD; i++) {
                float& score = scores[i / HELD].at[i % HELD];
                score = power_of_two(multiply_add(score, scale, -log_sum_exp[row_slot(i % HELD)]));
            }
            if (key + KEYS > shared_end || (Parts && key < shared_begin)) {
                FASCICLE_UNROLL
                for (int i = 0; i < int(TILES) * HELD; i++) {
                    int r = row_slot(i % HELD);
                    u32 at_key = key + 16 * u32(i / HELD) + column_held(i % HELD);
                    if (at_key >= met[r] || (Parts && at_key < from[r])) scores[i / HELD].at[i % HELD] = 0;
                }
            }
            await_products<0>();
            hold(d_weights);
            FASCICLE_UNROLL
            for (u32 n = 0; n < TILES; n++) {
                FASCICLE_UNROLL
                for (int e = 0; e < HELD; e++) {
                    d_weights[n].at[e] = scores[n].at[e] * (d_weights[n].at[e] - delta[row_slot(e)]);
                }
                d_scores[n] = as_left<T>(d_weights[n]);
            }
            hold(d_scores);
            hold(d_q.at);
            begin_products();
            start_sums<T, D, KEYS>(d_q.at, d_scores, k);
            await_products<0>();
            hold(d_q.at);
            ring.release(tile);
        }
    }
    float factor[HELD_ROWS];
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) factor[r] = float(s.scale);
    d_q.store(p.d_q, own, first, factor);
}

}  // namespace fascicle

#define FASCICLE_BACKWARD_HOPPER_OF(side, suffix, T, D, end, parts)                            \
    FASCICLE_HOPPER(fascicle_attention_backward_##side##_hopper_##suffix##_##D##end,           \
                    fascicle::AttentionBackwardParams, fascicle::BACKWARD_GROUPS) {            \
        fascicle::attention_backward_##side##_hopper<T, D, parts>(p);                          \
    }
#define FASCICLE_BACKWARD_HOPPER(side, suffix, T, D)               \
    FASCICLE_BACKWARD_HOPPER_OF(side, suffix, T, D, , false)       \
    FASCICLE_BACKWARD_HOPPER_OF(side, suffix, T, D, _parts, true)
FASCICLE_BACKWARD_HOPPER(queries, bf16, fascicle::bf16, 64)
FASCICLE_BACKWARD_HOPPER(queries, bf16, fascicle::bf16, 128)
FASCICLE_BACKWARD_HOPPER(queries, f16, fascicle::f16, 64)
FASCICLE_BACKWARD_HOPPER(queries, f16, fascicle::f16, 128)
