// Attention without matrix units, backward: one kernel for the gradients of queries, one for those of keys and values.
//
// Each recomputes the weights from the logarithm of their sum. Two kernels cost more arithmetic than one kernel whose
// blocks all add to the queries' gradients, but every sum has one owner and one order.
#pragma once

#include "attention_plain.h"

namespace fascicle {

struct AttentionBackwardParams {
    AttentionSizes sizes;
    const void* q;
    const void* k;
    const void* v;
    const void* d_out;
    const void* log_sum_exp;
    const void* delta;
    void* d_q;
    void* d_k;
    void* d_v;
};

// The weight of a query on a key, with and without dropout, and the gradient of their product.
template <class A>
struct WeightGradient { A weight, d_product; };

template <class A>
FASCICLE_DEVICE WeightGradient<A> weight_gradient(const AttentionSizes& s, const ScoreBound<A>& bound, u64 index, A product,
                                                  A log_sum_exp, A d_weight, A delta) {
    A part = bound.part(product), weight = exp_of(bound.factor * part - log_sum_exp);
    A kept = s.drops ? kept_factor<A>(s, index) : A(1);
    return {weight * kept, weight * (d_weight * kept - delta) * bound.slope(part)};
}

// Copies the numbers of `count` queries of a head.
template <class A>
FASCICLE_DEVICE void load_sums(const AttentionSizes& s, const void* from, u64 sequence, u64 head, u64 first, u32 count,
                               A* to) {
    const A* sums = static_cast<const A*>(from) + sums_start(s, sequence, head);
    for (u32 i = thread_x(); i < count; i += block_size_x()) to[i] = first + i < s.queries ? sums[first + i] : A(0);
}

template <class A>
FASCICLE_DEVICE void clear(A* numbers, u32 count) {
    for (u32 i = thread_x(); i < count; i += block_size_x()) numbers[i] = 0;
}

// sums[row][e] += the sum over c of factors[row][c] * others[c][e].
template <class A>
FASCICLE_DEVICE void add_product(A* sums, const A* factors, const A* others, u32 rows, u32 count, u32 size) {
    for (u32 i = thread_x(); i < rows * size; i += block_size_x()) {
        u32 row = i / size, e = i % size;
        A sum = sums[i];
        for (u32 c = 0; c < count; c++) sum = multiply_add(factors[row * (count + 1) + c], others[c * (size + 1) + e], sum);
        sums[i] = sum;
    }
}

template <class T>
FASCICLE_DEVICE void attention_backward_queries(const AttentionBackwardParams& p) {
    using A = Acc<T>;
    const AttentionSizes& s = p.sizes;
    u32 size = u32(s.head_size), rows = s.tile_rows, keys = s.tile_others;
    u64 first = u64(block_x()) * rows, head = block_y(), sequence = block_z();
    HeadRows own = query_rows(s, sequence, head), others = key_rows(s, sequence, head / (s.heads / s.kv_heads));
    Shared<A> shared;
    A *q = shared.take(rows * size), *d_out = shared.take(rows * size), *d_q = shared.take(rows * size);
    A *k = shared.take(keys * (size + 1)), *v = shared.take(keys * (size + 1));
    A *d_products = shared.take(rows * (keys + 1)), *log_sum_exp = shared.take(rows), *delta = shared.take(rows);
    load_rows<A, T>(p.q, own, first, rows, size, A(s.scale), q, size);
    load_rows<A, T>(p.d_out, own, first, rows, size, A(1), d_out, size);
    load_sums(s, p.log_sum_exp, sequence, head, first, rows, log_sum_exp);
    load_sums(s, p.delta, sequence, head, first, rows, delta);
    clear(d_q, rows * size);
    ScoreBound<A> bound(s, A(1));
    u64 end = keys_before(s, first + rows);
    for (u64 key = first_tile_of(s, sequence, first, keys); key < end; key += keys) {
        barrier();
        load_rows<A, T>(p.k, others, key, keys, size, A(1), k, size + 1);
        load_rows<A, T>(p.v, others, key, keys, size, A(1), v, size + 1);
        barrier();
        for (u32 i = thread_x(); i < rows * keys; i += block_size_x()) {
            u32 row = i / keys, c = i % keys;
            A product = dot(q + row * size, k + c * (size + 1), size);
            A d_weight = dot(d_out + row * size, v + c * (size + 1), size);
            u64 index = weight_index(s, sequence, head, first + row, key + c);
            A d_product = weight_gradient(s, bound, index, product, log_sum_exp[row], d_weight, delta[row]).d_product;
            d_products[row * (keys + 1) + c] = meets(s, sequence, first + row, key + c) ? d_product : A(0);
        }
        barrier();
        add_product(d_q, d_products, k, rows, keys, size);
    }
    barrier();
    store_rows<T>(p.d_q, own, first, rows, size, d_q, [&](u32) { return A(s.scale); });
}

// The state that a block of keys keeps.
template <class A>
struct KeyTile { A *k, *v, *d_k, *d_v, *weights, *d_products; };

// Adds the contribution of `tile_others` queries of a head, from `query` on, to the gradients of the block's keys.
template <class T, class A>
FASCICLE_DEVICE void add_queries(const AttentionBackwardParams& p, const KeyTile<A>& tile, Shared<A> shared, u64 first,
                                 u64 query, u64 head, u64 sequence) {
    const AttentionSizes& s = p.sizes;
    u32 size = u32(s.head_size), rows = s.tile_rows, queries = s.tile_others;
    A *q = shared.take(queries * (size + 1)), *d_out = shared.take(queries * (size + 1));
    A *log_sum_exp = shared.take(queries), *delta = shared.take(queries);
    HeadRows others = query_rows(s, sequence, head);
    ScoreBound<A> bound(s, A(1));
    barrier();
    load_rows<A, T>(p.q, others, query, queries, size, A(s.scale), q, size + 1);
    load_rows<A, T>(p.d_out, others, query, queries, size, A(1), d_out, size + 1);
    load_sums(s, p.log_sum_exp, sequence, head, query, queries, log_sum_exp);
    load_sums(s, p.delta, sequence, head, query, queries, delta);
    barrier();
    for (u32 i = thread_x(); i < rows * queries; i += block_size_x()) {
        u32 row = i / queries, c = i % queries;
        A product = dot(tile.k + row * size, q + c * (size + 1), size);
        A d_weight = dot(tile.v + row * size, d_out + c * (size + 1), size);
        u64 index = weight_index(s, sequence, head, query + c, first + row);
        auto gradient = weight_gradient(s, bound, index, product, log_sum_exp[c], d_weight, delta[c]);
        bool met = query + c < s.queries && meets(s, sequence, query + c, first + row);
        tile.weights[row * (queries + 1) + c] = met ? gradient.weight : A(0);
        tile.d_products[row * (queries + 1) + c] = met ? gradient.d_product : A(0);
    }
    barrier();
    add_product(tile.d_v, tile.weights, d_out, rows, queries, size);
    add_product(tile.d_k, tile.d_products, q, rows, queries, size);
}

template <class T>
FASCICLE_DEVICE void attention_backward_keys(const AttentionBackwardParams& p) {
    using A = Acc<T>;
    const AttentionSizes& s = p.sizes;
    u32 size = u32(s.head_size), rows = s.tile_rows, queries = s.tile_others;
    u64 first = u64(block_x()) * rows, kv_head = block_y(), sequence = block_z();
    u64 group = s.heads / s.kv_heads;
    HeadRows own = key_rows(s, sequence, kv_head);
    Shared<A> shared;
    KeyTile<A> tile{shared.take(rows * size), shared.take(rows * size), shared.take(rows * size),
                    shared.take(rows * size), shared.take(rows * (queries + 1)), shared.take(rows * (queries + 1))};
    load_rows<A, T>(p.k, own, first, rows, size, A(1), tile.k, size);
    load_rows<A, T>(p.v, own, first, rows, size, A(1), tile.v, size);
    clear(tile.d_k, rows * size);
    clear(tile.d_v, rows * size);
    u64 end = has_parts(s) ? queries_end_of(s, sequence, first + rows - 1) : s.queries;
    for (u64 head = kv_head * group; head < (kv_head + 1) * group; head++) {
        for (u64 query = first_query_of(s, first) / queries * queries; query < end; query += queries) {
            add_queries<T>(p, tile, shared, first, query, head, sequence);
        }
    }
    barrier();
    // The scale is in the queries already.
    store_rows<T>(p.d_k, own, first, rows, size, tile.d_k, [&](u32) { return A(1); });
    store_rows<T>(p.d_v, own, first, rows, size, tile.d_v, [&](u32) { return A(1); });
}

}  // namespace fascicle

#define FASCICLE_ATTENTION_BACKWARD(suffix, T)                                                                      \
    FASCICLE_COOPERATIVE(fascicle_attention_backward_queries_##suffix, fascicle::AttentionBackwardParams, 128) {    \
        fascicle::attention_backward_queries<T>(p);                                                                 \
    }                                                                                                               \
    FASCICLE_COOPERATIVE(fascicle_attention_backward_keys_##suffix, fascicle::AttentionBackwardParams, 128) {       \
        fascicle::attention_backward_keys<T>(p);                                                                    \
    }
FASCICLE_FLOATS(FASCICLE_ATTENTION_BACKWARD)
