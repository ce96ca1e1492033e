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

// For every id, the index of the next equal one, and whether there is an equal one before it.
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

// The first index from `start` on whose id is `id`, or NO_NEXT; a warp reads one id per lane at a time.
FASCICLE_DEVICE u32 next_equal(const u32* ids, u64 start, u64 rows, u32 id) {
    for (u64 from = start; from < rows; from += WARP) {
        u64 i = from + lane_index();
        u64 equal = ballot(i < rows && ids[i] == id);
        if (equal != 0) return u32(from) + lowest_bit(equal);
    }
    return NO_NEXT;
}

// Whether one of the ids before `end` is `id`.
FASCICLE_DEVICE bool seen_before(const u32* ids, u64 end, u32 id) {
    for (u64 from = 0; from < end; from += WARP) {
        u64 i = from + lane_index();
        if (ballot(i < end && ids[i] == id) != 0) return true;
    }
    return false;
}

FASCICLE_DEVICE void embedding_links(const EmbeddingLinksParams& p) {
    const u32* ids = static_cast<const u32*>(p.ids);
    each_row_of_warp(p.rows, [&](u64 i) {
        u32 next = next_equal(ids, i + 1, p.rows, ids[i]);
        u32 link = next | (seen_before(ids, i, ids[i]) ? HAS_PREVIOUS : 0);
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
