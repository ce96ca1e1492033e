// Look-up in a table whose rows may be sharded, and its gradient.
#pragma once

#include "loops.h"

namespace fascicle {

struct EmbeddingForwardParams {
    const void* table;
    const void* ids;
    void* out;
    u64 rows;
    u64 columns;
    u64 table_rows;
    u64 first_row;
};

// For every id, the index of the next equal one, and whether there is an equal one before it. There are less than 2^31 ids.
struct EmbeddingLinksParams {
    const void* ids;
    void* links;
    u64 rows;
};

struct EmbeddingBackwardParams {
    const void* d_out;
    const void* ids;
    const void* links;
    void* d_table;
    u64 rows;
    u64 columns;
    u64 table_rows;
    u64 first_row;
};

constexpr u32 NO_NEXT = 0x7fffffffu;
constexpr u32 HAS_PREVIOUS = 0x80000000u;

// Whether the row that `id` names is held here; `row` is then its local index.
FASCICLE_DEVICE bool find_row(u32 id, u64 first_row, u64 table_rows, u64& row) {
    row = u64(id) - first_row;
    return id >= first_row && row < table_rows;
}

template <class T>
FASCICLE_DEVICE void embedding_forward(const EmbeddingForwardParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 i, u64 column, u64 left) {
        u64 row;
        bool held = find_row(static_cast<const u32*>(p.ids)[i], p.first_row, p.table_rows, row);
        Pack<T, N> pack{};
        if (held) pack = load<N>(static_cast<const T*>(p.table) + row * p.columns + column, left);
        store<N>(static_cast<T*>(p.out) + i * p.columns + column, pack, left);
    });
}

// The first index in start..end whose id is `id`, or NO_NEXT. A lane reads four ids at a time.
FASCICLE_DEVICE u32 first_equal(const u32* ids, u32 start, u32 end, u32 id) {
    for (u32 from = start / 4 * 4; from < end; from += 4 * WARP) {
        u32 at = from + 4 * lane_index();
        auto four = load<4>(ids + at, at < end ? end - at : 0);
        bool equal[4], any = false;
        FASCICLE_UNROLL
        for (u32 i = 0; i < 4; i++) equal[i] = four.at[i] == id;
        if (from < start || end - from < 4 * WARP) {
            FASCICLE_UNROLL
            for (u32 i = 0; i < 4; i++) equal[i] = equal[i] && at + i >= start && at + i < end;
        }
        FASCICLE_UNROLL
        for (u32 i = 0; i < 4; i++) any = any || equal[i];
        u64 lanes = ballot(any);
        if (lanes == 0) continue;
        u32 lane = lowest_bit(lanes), of_lane = equal[0] ? 0 : equal[1] ? 1 : equal[2] ? 2 : 3;
        return from + 4 * lane + from_lane(of_lane, lane);
    }
    return NO_NEXT;
}

FASCICLE_DEVICE void embedding_links(const EmbeddingLinksParams& p) {
    const u32* ids = static_cast<const u32*>(p.ids);
    u32 rows = u32(p.rows);
    each_row_of_warp(rows, [&](u64 row) {
        u32 i = u32(row), id = ids[i];
        u32 next = first_equal(ids, i + 1, rows, id);
        u32 link = next | (first_equal(ids, 0, i, id) == NO_NEXT ? 0 : HAS_PREVIOUS);
        if (lane_index() == 0) static_cast<u32*>(p.links)[i] = link;
    });
}

// The first of equal ids adds the gradients of all of them to their row, in order. So no two threads write one element.
template <class T>
FASCICLE_DEVICE void embedding_backward(const EmbeddingBackwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    const u32* links = static_cast<const u32*>(p.links);
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 i, u64 column, u64 left) {
        u64 row;
        bool held = find_row(static_cast<const u32*>(p.ids)[i], p.first_row, p.table_rows, row);
        if (!held || links[i] & HAS_PREVIOUS) return;
        A* to = static_cast<A*>(p.d_table) + row * p.columns + column;
        auto sum = load<N>(static_cast<const A*>(to), left);
        for (u32 from = u32(i); from != NO_NEXT; from = links[from] & NO_NEXT) {
            auto d = load_as<A, N>(static_cast<const T*>(p.d_out) + from * p.columns + column, left);
            FASCICLE_UNROLL
            for (int e = 0; e < N; e++) sum.at[e] += d.at[e];
        }
        store<N>(to, sum, left);
    });
}

}  // namespace fascicle

FASCICLE_COOPERATIVE(fascicle_embedding_links, fascicle::EmbeddingLinksParams, 256) { fascicle::embedding_links(p); }

#define FASCICLE_EMBEDDING(suffix, T)                                                                     \
    FASCICLE_INDEPENDENT(fascicle_embedding_forward_##suffix, fascicle::EmbeddingForwardParams, 256) {    \
        fascicle::embedding_forward<T>(p);                                                                \
    }                                                                                                     \
    FASCICLE_INDEPENDENT(fascicle_embedding_backward_##suffix, fascicle::EmbeddingBackwardParams, 256) {  \
        fascicle::embedding_backward<T>(p);                                                               \
    }
FASCICLE_FLOATS(FASCICLE_EMBEDDING)
