// Shared by all kernels of causal attention: sizes, the rows of a head, dropout, and the row sums that the backward pass
// needs.
#pragma once

#include "loops.h"
#include "philox.h"
#include "reduce.h"

namespace fascicle {

struct AttentionSizes {
    u64 sequences;
    u64 queries;      // per sequence
    u64 keys;         // per sequence
    u64 first_query;  // query i attends to the keys j <= first_query + i; at most `keys` and `window` together
    u64 window;       // and to no more than so many of them, the last ones; 0: to all
    u64 first_key;    // the place of the first key held here in its complete sequence
    // sequences x queries: where in its complete sequence each query's document starts; null: at its beginning.
    const u32* documents;
    u64 heads;
    u64 kv_heads;
    u64 head_size;
    double scale;
    double score_cap;  // the bound that scaled scores approach; 0: none
    RandomKey key;
    u64 global_heads;
    u64 global_sequence;  // tokens of a complete sequence
    u64 first_weight;     // the generator's index of the weight of the first query of the first head on the first key
    double kept;          // 1 / (1 - probability)
    u32 threshold;
    u32 drops;        // whether there is dropout
    u32 tile_rows;    // of the plain kernels: rows that a block owns
    u32 tile_others;  // and rows that it reads at a time
};

struct AttentionDeltaParams {
    AttentionSizes sizes;
    const void* out;
    const void* d_out;
    void* delta;  // sequences x heads x queries
};

// The rows of one head of one sequence, among the rows of all heads of all tokens: row r is `first + r * heads`.
struct HeadRows {
    u64 first, heads, count;

    FASCICLE_DEVICE u64 at(u64 row) const { return first + row * heads; }
};

FASCICLE_DEVICE HeadRows query_rows(const AttentionSizes& s, u64 sequence, u64 head) {
    return {sequence * s.queries * s.heads + head, s.heads, s.queries};
}
FASCICLE_DEVICE HeadRows key_rows(const AttentionSizes& s, u64 sequence, u64 kv_head) {
    return {sequence * s.keys * s.kv_heads + kv_head, s.kv_heads, s.keys};
}

// The place of a block of rows among those of all heads. Blocks start in the order of their numbers: of the heads of a group, all
// first blocks, then all second ones. So the blocks with the least work end the kernel, and not the last head's longest ones.
// `lower/attention_order.rs` chooses the groups.
struct BlockPlace {
    u32 from_first, from_last;  // blocks of the head before it, and behind it
    u32 head, sequence;
};

FASCICLE_DEVICE BlockPlace place_of_block(u64 heads) {
    u32 group = u32(heads) / grid_size_y(), number = block_x(), block = number / group;
    return {block, grid_size_x() / group - 1 - block, block_y() * group + number % group, block_z()};
}

// The number of keys that the queries before `query` meet, which are the first keys of their sequence.
FASCICLE_DEVICE u64 keys_before(const AttentionSizes& s, u64 query) {
    u64 end = s.first_query + query;
    return end < s.keys ? end : s.keys;
}

// The first query that meets `key`, if any does.
FASCICLE_DEVICE u64 first_query_of(const AttentionSizes& s, u64 key) {
    return key > s.first_query ? key - s.first_query : 0;
}

// Whether queries meet a part of the keys before them.
FASCICLE_DEVICE bool has_parts(const AttentionSizes& s) { return s.documents || s.window; }

// The first key of the document of `query`, up to its own; the sequence has documents.
FASCICLE_DEVICE u64 document_key_of(const AttentionSizes& s, u64 sequence, u64 query) {
    u64 start = s.documents[sequence * s.queries + query], own = s.first_query + query;
    u64 first = start > s.first_key ? start - s.first_key : 0;
    return first < own ? first : own;
}

// The first key that `query` meets, of its document and window: it may be past the keys. A query past the last one is treated
// as the last.
FASCICLE_DEVICE u64 first_key_of(const AttentionSizes& s, u64 sequence, u64 query) {
    if (query >= s.queries) query = s.queries - 1;
    u64 first = s.documents ? document_key_of(s, sequence, query) : 0, end = s.first_query + query + 1;
    return s.window && end > s.window + first ? end - s.window : first;
}

// The end of the queries that meet `key` or an earlier one: in documents, which are in order, and in windows.
FASCICLE_DEVICE u64 queries_end_of(const AttentionSizes& s, u64 sequence, u64 key) {
    u64 low = s.documents ? 0 : s.queries, high = s.queries;
    while (low < high) {
        u64 middle = (low + high) / 2;
        bool meets = document_key_of(s, sequence, middle) <= key;
        low = meets ? middle + 1 : low;
        high = meets ? high : middle;
    }
    if (!s.window) return low;
    u64 reached = key + s.window, end = reached > s.first_query ? reached - s.first_query : 0;
    return low < end ? low : end;
}

// How products of queries and keys become scores: `factor` times `part`. Where scores approach a bound, the part is the share of it
// that a score reaches: cap * tanh(score / cap). `scale`: by which products are yet to be multiplied.
template <class A>
struct ScoreBound {
    bool bounds;
    A inner, factor;

    FASCICLE_DEVICE ScoreBound(const AttentionSizes& s, A scale)
        : bounds(s.score_cap > 0), inner(bounds ? scale / A(s.score_cap) : A(0)),
          factor(bounds ? A(s.score_cap) : scale) {}

    FASCICLE_DEVICE A part(A product) const { return bounds ? tanh_of(inner * product) : product; }
    // The derivative of a score by the one before the bound.
    FASCICLE_DEVICE A slope(A part) const { return bounds ? A(1) - part * part : A(1); }
};

// Offset of the numbers of a head's queries in an array of sequences x heads x queries.
FASCICLE_DEVICE u64 sums_start(const AttentionSizes& s, u64 sequence, u64 head) {
    return (sequence * s.heads + head) * s.queries;
}

// The generator's index of the weight of `query` on `key`.
FASCICLE_DEVICE u64 weight_index(const AttentionSizes& s, u64 sequence, u64 head, u64 query, u64 key) {
    return ((sequence * s.global_heads + head) * s.global_sequence + query) * s.global_sequence + key + s.first_weight;
}

// 0 for a weight that is dropped, else 1 / (1 - probability).
template <class A>
FASCICLE_DEVICE A kept_factor(const AttentionSizes& s, u64 index) {
    bool drops[1];
    draw<1>(s.key, index, s.threshold, drops);
    return drops[0] ? A(0) : A(s.kept);
}

// Rows that a lane sums at a time, of which all loads are in flight together; `lower/attention.rs` knows it too.
constexpr int DELTA_ROWS = 4;

// delta: the sum over a head's elements of output times output gradient, which equals that of weight times weight
// gradient. As many lanes share a head's row as have a pack of it, up to a warp, and a warp takes several rows.
template <class T>
FASCICLE_DEVICE void attention_delta(const AttentionDeltaParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    const AttentionSizes& s = p.sizes;
    u32 lanes = 1, heads = u32(s.heads), queries = u32(s.queries);
    while (lanes < WARP && lanes * N < s.head_size) lanes *= 2;
    u32 lane = lane_index() % lanes, own = lane_index() / lanes, step = WARP / lanes;
    u64 rows = s.sequences * s.queries * s.heads, rows_of_warp = u64(step) * DELTA_ROWS;
    each_row_of_warp((rows + rows_of_warp - 1) / rows_of_warp, [&](u64 group) {
        u64 first = group * rows_of_warp + own;
        u64 held = first < rows ? (rows - first + step - 1) / step : 0;
        A sums[DELTA_ROWS] = {};
        each_pack_of_row<N>(s.head_size, lane, lanes, [&](u64 column, u64 left) {
            u64 at = first * s.head_size + column;
            Pack<T, N> outs[DELTA_ROWS], d_outs[DELTA_ROWS];
            load_rows(static_cast<const T*>(p.out) + at, step * s.head_size, held, left, outs);
            load_rows(static_cast<const T*>(p.d_out) + at, step * s.head_size, held, left, d_outs);
            FASCICLE_UNROLL
            for (int r = 0; r < DELTA_ROWS; r++) {
                auto out = widened<A>(outs[r]), d_out = widened<A>(d_outs[r]);
                FASCICLE_UNROLL
                for (int i = 0; i < N; i++) sums[r] = multiply_add(out.at[i], d_out.at[i], sums[r]);
            }
        });
        FASCICLE_UNROLL
        for (int r = 0; r < DELTA_ROWS; r++) {
            for (u32 mask = lanes / 2; mask > 0; mask /= 2) sums[r] += exchange(sums[r], mask);
            // A division of 64 bits takes longer than the rest of the row.
            u64 row = first + u64(r) * step;
            u64 token = rows <= 0xffffffffu ? u32(row) / heads : row / heads;
            u32 head = u32(row - token * heads);
            u64 sequence = rows <= 0xffffffffu ? u32(token) / queries : token / queries;
            u64 at = sums_start(s, sequence, head) + (token - sequence * queries);
            if (lane == 0 && u64(r) < held) static_cast<A*>(p.delta)[at] = sums[r];
        }
    });
}

}  // namespace fascicle

#define FASCICLE_ATTENTION_DELTA(suffix, T)                                                            \
    FASCICLE_COOPERATIVE(fascicle_attention_delta_##suffix, fascicle::AttentionDeltaParams, 256) {     \
        fascicle::attention_delta<T>(p);                                                               \
    }
FASCICLE_FLOATS(FASCICLE_ATTENTION_DELTA)
