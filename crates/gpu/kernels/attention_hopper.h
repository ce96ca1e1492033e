// Attention with products of warpgroups: 16-bit elements, heads of 64 or 128, compute capability 9.0. Forward.
//
// Each warpgroup of a block owns 64 queries, and keeps their outputs and scores in registers. Queries, and tiles of keys and
// values, lie in shared memory for all groups. While the matrix units add a tile's values, the warps turn the scores of the next
// tile into weights. Dropout is left to the kernels of tiles: its generator takes longer than the products.
//
// Source: Shah and others, "FlashAttention-3", arXiv:2407.08608: products that overlap the softmax of the next tile.
#pragma once

#include "attention_tiles.h"
#include "ring.h"

namespace fascicle {

// Multiplying groups of a block: as many as have registers for their sums.
template <int D> constexpr u32 FORWARD_GROUPS = D == 64 ? 3 : 2;
// Keys of a tile.
constexpr u32 HOPPER_KEYS = 128;

// `Parts`: whether queries meet a part of the keys before them, because of documents or a window.
template <class T, int D, bool Parts>
FASCICLE_DEVICE void attention_forward_hopper(const AttentionForwardParams& p) {
    constexpr u32 KEYS = HOPPER_KEYS, GROUPS = FORWARD_GROUPS<D>, ROWS = GROUPS * GROUP_ROWS;
    const AttentionSizes& s = p.sizes;
    BlockPlace place_of = place_of_block(s.heads);
    u64 head = place_of.head, sequence = place_of.sequence;
    HeadRows own = query_rows(s, sequence, head), others = key_rows(s, sequence, head / (s.heads / s.kv_heads));
    // The last queries attend to the most keys, so their blocks start first.
    u32 block_first = place_of.from_last * ROWS;
    u32 first = block_first + 16 * warp_index(), group_row = warp_index() / GROUP_WARPS * GROUP_ROWS;
    T* queries = shared_tiles<T>();
    T* keys = queries + ROWS * D;
    T* values = keys + 2 * KEYS * D;
    u64* barriers = reinterpret_cast<u64*>(values + 2 * KEYS * D);
    Ring<2, GROUPS> of_keys(barriers), of_values(barriers + of_keys.BARRIERS);
    float scale = float(s.scale) * LOG2_E;
    // As in the kernel of tiles: the keys that a query of the block meets, and every one of the warp.
    u32 end = u32(keys_before(s, block_first + ROWS)), shared_end = u32(keys_before(s, first + 1));
    u32 begin = 0, shared_begin = 0, place = u32(s.first_query) + first, last = u32(s.keys) - 1;
    i32 row_begin[HELD_ROWS];  // the first key that the query of each of the lane's rows meets
    FASCICLE_UNROLL
    for (int r = 0; r < HELD_ROWS; r++) {
        row_begin[r] = Parts ? i32(first_key_of(s, sequence, first + row_held(2 * r))) : 0;
    }
    if (Parts) {
        shared_begin = u32(first_key_of(s, sequence, first + 15));
        begin = u32(first_key_of(s, sequence, block_first)) / KEYS * KEYS;
    }
    u32 tiles = begin < end ? (end - begin + KEYS - 1) / KEYS : 0;
    if (thread_x() == 0) {
        of_keys.init();
        of_values.init();
    }
    barrier();
    if (copies<GROUPS>()) {
        give_registers<GROUPS>();
        GroupSource<D, T> all_keys(p.k, others), all_values(p.v, others);
        if (tiles > 0) GroupSource<D, T>(p.q, own).template fetch<ROWS>(block_first, queries);
        // Keys are a tile ahead of values, as their products are.
        for (u32 tile = 0; tile < tiles; tile++) {
            of_keys.await_empty(tile);
            all_keys.template fetch<KEYS>(begin + tile * KEYS, keys + tile % 2 * KEYS * D);
            commit_copies();
            if (tile == 0) continue;
            publish_copies<1>();
            tile == 1 ? of_keys.announce(0) : of_values.announce(tile - 2);
            of_values.await_empty(tile - 1);
            all_values.template fetch<KEYS>(begin + (tile - 1) * KEYS, values + (tile - 1) % 2 * KEYS * D);
            commit_copies();
            publish_copies<1>();
            of_keys.announce(tile);
        }
        if (tiles > 0) {
            of_values.await_empty(tiles - 1);
            all_values.template fetch<KEYS>(begin + (tiles - 1) * KEYS, values + (tiles - 1) % 2 * KEYS * D);
            commit_copies();
            publish_copies<0>();
            if (tiles == 1) of_keys.announce(0);
            if (tiles > 1) of_values.announce(tiles - 2);
            of_values.announce(tiles - 1);
        }
        return;
    }
    take_registers<GROUPS>();
    RowSums<D, T> out;
    out.clear_all();
    RowSoftmax softmax;
    softmax.start();
    if (tiles > 0) {
        GroupTile<ROWS> q(queries);
        Sum scores[KEYS / 16];
        Operand<T> weights[KEYS / 16];
        float factor[HELD_ROWS];
        auto soften = [&](u32 key) {
            mask_scores<Parts>(scores, key, place, last, shared_begin, shared_end, row_begin);
            softmax.soften<Parts>(scores, scale, factor);
        };
        auto weigh = [&] {
            FASCICLE_UNROLL
            for (u32 n = 0; n < KEYS / 16; n++) weights[n] = as_left<T>(scores[n]);
        };
        Turns<GROUPS> turns(group_row / GROUP_ROWS);
        of_keys.await_full(0);
        turns.await();
        hold(scores);
        begin_products();
        start_scores<T, D, KEYS>(scores, q, group_row, GroupTile<KEYS>(keys));
        turns.pass();
        await_products<0>();
        hold(scores);
        of_keys.release(0);
        soften(begin);
        weigh();
        // The products of all but the last tile run while the next tile's scores become weights. No product is conditional:
        // the compiler would order each of them behind all other instructions.
        for (u32 tile = 0; tile + 1 < tiles; tile++) {
            of_keys.await_full(tile + 1);
            of_values.await_full(tile);
            turns.await();
            hold(scores);
            hold(weights);
            hold(out.at);
            begin_products();
            start_scores<T, D, KEYS>(scores, q, group_row, GroupTile<KEYS>(keys + (tile + 1) % 2 * KEYS * D));
            start_sums<T, D, KEYS>(out.at, weights, GroupTile<KEYS>(values + tile % 2 * KEYS * D));
            turns.pass();
            await_products<1>();
            hold(scores);
            of_keys.release(tile + 1);
            soften(begin + (tile + 1) * KEYS);
            stay_before_wait(softmax.sum[0] + softmax.sum[1]);
            await_products<0>();
            hold(out.at);
            hold(weights);
            of_values.release(tile);
            out.shrink(factor);
            weigh();
        }
        of_values.await_full(tiles - 1);
        turns.await();
        hold(weights);
        hold(out.at);
        begin_products();
        start_sums<T, D, KEYS>(out.at, weights, GroupTile<KEYS>(values + (tiles - 1) % 2 * KEYS * D));
        turns.pass(true);
        await_products<0>();
        hold(out.at);
    }
    float shares[HELD_ROWS];
    softmax.finish<Parts>(static_cast<float*>(p.log_sum_exp) + sums_start(s, sequence, head), first, s.queries, shares);
    out.store(p.out, own, first, shares);
}

}  // namespace fascicle

#define FASCICLE_FORWARD_HOPPER_OF(suffix, T, D, end, parts)                                                      \
    FASCICLE_HOPPER(fascicle_attention_forward_hopper_##suffix##_##D##end, fascicle::AttentionForwardParams,      \
                    fascicle::FORWARD_GROUPS<D>) {                                                                \
        fascicle::attention_forward_hopper<T, D, parts>(p);                                                       \
    }
#define FASCICLE_FORWARD_HOPPER(suffix, T, D)               \
    FASCICLE_FORWARD_HOPPER_OF(suffix, T, D, , false)       \
    FASCICLE_FORWARD_HOPPER_OF(suffix, T, D, _parts, true)
FASCICLE_FORWARD_HOPPER(bf16, fascicle::bf16, 64)
FASCICLE_FORWARD_HOPPER(bf16, fascicle::bf16, 128)
FASCICLE_FORWARD_HOPPER(f16, fascicle::f16, 64)
FASCICLE_FORWARD_HOPPER(f16, fascicle::f16, 128)
