// Attention without matrix units: any float type, any size of head. Forward.
//
// A block owns `tile_rows` queries of one head and reads `tile_others` keys at a time, all in shared memory.
#pragma once

#include "attention.h"

namespace fascicle {

struct AttentionForwardParams {
    AttentionSizes sizes;
    const void* q;
    const void* k;
    const void* v;
    void* out;
    void* log_sum_exp;
};

// Copies `count` rows of `size` elements of a head, from row `first` on, into shared memory, times `factor`; rows past the
// end are 0.
template <class A, class T>
FASCICLE_DEVICE void load_rows(const void* from, const HeadRows& rows, u64 first, u32 count, u32 size, A factor, A* to,
                               u32 step) {
    for (u32 i = thread_x(); i < count * size; i += block_size_x()) {
        u32 row = i / size, e = i % size;
        bool inside = first + row < rows.count;
        const T* at = static_cast<const T*>(from) + rows.at(first + row) * size + e;
        to[row * step + e] = inside ? factor * A(widen(*at)) : A(0);
    }
}

// Writes rows of a head from shared memory, times the factor of each row.
template <class T, class A, class Factor>
FASCICLE_DEVICE void store_rows(void* to, const HeadRows& rows, u64 first, u32 count, u32 size, const A* from,
                                Factor factor) {
    for (u32 i = thread_x(); i < count * size; i += block_size_x()) {
        u32 row = i / size, e = i % size;
        if (first + row >= rows.count) continue;
        T* at = static_cast<T*>(to) + rows.at(first + row) * size + e;
        *at = narrow<T>(from[i] * factor(row));
    }
}

template <class A>
FASCICLE_DEVICE A dot(const A* a, const A* b, u32 size) {
    A sum = 0;
    for (u32 e = 0; e < size; e++) sum = multiply_add(a[e], b[e], sum);
    return sum;
}

// Divides the block's shared memory.
template <class A>
struct Shared {
    A* next = reinterpret_cast<A*>(shared_memory());

    FASCICLE_DEVICE A* take(u32 count) {
        A* part = next;
        next += count;
        return part;
    }
};

// The state that a block keeps for its queries.
template <class A>
struct QueryTile { A *q, *out, *scores, *max, *sum, *factor; };

// Turns a row of scores into weights, given the row's maximum and sum so far. Stores the factor that its output shrinks
// by.
template <class A>
FASCICLE_DEVICE void soften_row(const AttentionSizes& s, const QueryTile<A>& tile, u32 row, u64 index) {
    A* scores = tile.scores + row * (s.tile_others + 1);
    A max = tile.max[row], sum = 0;
    for (u32 c = 0; c < s.tile_others; c++) max = larger(max, scores[c]);
    // A query that has met no key of its document yet has no maximum.
    A base = max == minus_infinity<A>() ? A(0) : max;
    A factor = exp_of(tile.max[row] - base);
    for (u32 c = 0; c < s.tile_others; c++) {
        A weight = exp_of(scores[c] - base);
        sum += weight;
        scores[c] = s.drops ? weight * kept_factor<A>(s, index + c) : weight;
    }
    tile.max[row] = max;
    tile.sum[row] = tile.sum[row] * factor + sum;
    tile.factor[row] = factor;
}

// The first of the keys, in tiles of `keys`, from which on the queries from `first` on are computed.
FASCICLE_DEVICE u64 first_tile_of(const AttentionSizes& s, u64 sequence, u64 first, u32 keys) {
    return has_parts(s) ? first_key_of(s, sequence, first) / keys * keys : 0;
}

// Whether a query meets a key.
FASCICLE_DEVICE bool meets(const AttentionSizes& s, u64 sequence, u64 query, u64 key) {
    bool causal = key < keys_before(s, query + 1);
    return causal && (!has_parts(s) || key >= first_key_of(s, sequence, query));
}

template <class T>
FASCICLE_DEVICE void attention_forward(const AttentionForwardParams& p) {
    using A = Acc<T>;
    const AttentionSizes& s = p.sizes;
    u32 size = u32(s.head_size), rows = s.tile_rows, keys = s.tile_others;
    u64 first = u64(block_x()) * rows, head = block_y(), sequence = block_z();
    HeadRows own = query_rows(s, sequence, head), others = key_rows(s, sequence, head / (s.heads / s.kv_heads));
    Shared<A> shared;
    QueryTile<A> tile{shared.take(rows * size), shared.take(rows * size), shared.take(rows * (keys + 1)),
                      shared.take(rows), shared.take(rows), shared.take(rows)};
    A *k = shared.take(keys * (size + 1)), *v = shared.take(keys * size);
    load_rows<A, T>(p.q, own, first, rows, size, A(s.scale), tile.q, size);
    for (u32 i = thread_x(); i < rows * size; i += block_size_x()) tile.out[i] = 0;
    for (u32 row = thread_x(); row < rows; row += block_size_x()) {
        tile.max[row] = minus_infinity<A>();
        tile.sum[row] = 0;
    }
    ScoreBound<A> bound(s, A(1));
    u64 end = keys_before(s, first + rows);
    for (u64 key = first_tile_of(s, sequence, first, keys); key < end; key += keys) {
        barrier();
        load_rows<A, T>(p.k, others, key, keys, size, A(1), k, size + 1);
        load_rows<A, T>(p.v, others, key, keys, size, A(1), v, size);
        barrier();
        for (u32 i = thread_x(); i < rows * keys; i += block_size_x()) {
            u32 row = i / keys, c = i % keys;
            A score = bound.factor * bound.part(dot(tile.q + row * size, k + c * (size + 1), size));
            bool met = meets(s, sequence, first + row, key + c);
            tile.scores[row * (keys + 1) + c] = met ? score : minus_infinity<A>();
        }
        barrier();
        for (u32 row = thread_x(); row < rows; row += block_size_x()) {
            soften_row(s, tile, row, weight_index(s, sequence, head, first + row, key));
        }
        barrier();
        for (u32 i = thread_x(); i < rows * size; i += block_size_x()) {
            u32 row = i / size, e = i % size;
            A sum = tile.out[i] * tile.factor[row];
            for (u32 c = 0; c < keys; c++) sum = multiply_add(tile.scores[row * (keys + 1) + c], v[c * size + e], sum);
            tile.out[i] = sum;
        }
    }
    barrier();
    store_rows<T>(p.out, own, first, rows, size, tile.out, [&](u32 row) {
        return tile.sum[row] > 0 ? A(1) / tile.sum[row] : A(0);
    });
    A* log_sum_exp = static_cast<A*>(p.log_sum_exp) + sums_start(s, sequence, head);
    for (u32 row = thread_x(); row < rows; row += block_size_x()) {
        if (first + row < s.queries) log_sum_exp[first + row] = tile.max[row] + log_of(tile.sum[row]);
    }
}

}  // namespace fascicle

#define FASCICLE_ATTENTION_FORWARD(suffix, T)                                                              \
    FASCICLE_COOPERATIVE(fascicle_attention_forward_##suffix, fascicle::AttentionForwardParams, 128) {     \
        fascicle::attention_forward<T>(p);                                                                 \
    }
FASCICLE_FLOATS(FASCICLE_ATTENTION_FORWARD)
