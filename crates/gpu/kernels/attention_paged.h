// Attention of the newest tokens of sequences to keys and values in pages; see hal::kernel::pages.
//
// A block has some queries of the heads that share keys, and a part of a sequence's pages. It reads two pages at a time: a thread
// multiplies one key, and then a column of values. Where sequences have several parts, a second kernel joins what these found.
//
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023: parts of the keys on blocks of their own.
#pragma once

#include "attention.h"
#include "pages.h"

namespace fascicle {

struct PagedAttentionParams {
    const void* q;
    const void* key_pages;
    const void* value_pages;
    const u32* table;      // sequences x table_pages
    const u32* held;       // sequences x 2: keys, and the place of the first
    const u32* documents;  // sequences x queries; null: each sequence is one document
    void* out;
    void* parts;  // sequences x splits x rows x (head_size + 2), of accumulators: sums, largest score, and sum of weights
    u64 queries;
    u64 table_pages;
    u64 heads;
    u64 kv_heads;
    u64 head_size;
    u64 pages;
    u64 window;  // 0: none
    double scale;
    double score_cap;  // 0: none
    u64 sequences;
    u32 splits;
    u32 split_pages;  // of a part; even
};

// Keys of a step of a block, one for each of its threads. `lower/attention_paged.rs` knows it too.
constexpr u32 PAGED_KEYS = 2 * PAGE_TOKENS;

// A query of the block.
struct PagedQuery {
    bool exists;
    u64 at;     // of its first element in q and out
    u64 begin;  // the keys that it meets
    u64 end;
};

// The attention of one sequence that holds `keys` keys.
FASCICLE_DEVICE AttentionSizes sizes_of(const PagedAttentionParams& p, u64 sequence, u64 keys) {
    AttentionSizes sizes{};
    sizes.queries = p.queries;
    sizes.keys = keys;
    sizes.first_query = keys > p.queries ? keys - p.queries : 0;
    sizes.window = p.window;
    sizes.first_key = p.held[2 * sequence + 1];
    sizes.documents = p.documents;
    return sizes;
}

// Row `row` of those of the heads that share keys: its head, then its query.
FASCICLE_DEVICE PagedQuery paged_query(const PagedAttentionParams& p, const AttentionSizes& sizes, u64 sequence, u64 kv_head,
                                       u64 row) {
    u64 group = p.heads / p.kv_heads;
    PagedQuery query{row < group * p.queries, 0, 0, 0};
    if (!query.exists) return query;
    u64 head = kv_head * group + row / p.queries, number = row % p.queries;
    query.at = ((sequence * p.queries + number) * p.heads + head) * p.head_size;
    query.begin = first_key_of(sizes, sequence, number);
    query.end = keys_before(sizes, number + 1);
    return query;
}

// A number for each of the block's rows, and for each of a row's elements or keys.
template <class A>
struct PagedShared {
    A *q, *weights, *sums, *max, *sum, *factor;

    FASCICLE_DEVICE PagedShared(u32 rows, u32 size, u32 groups) {
        q = reinterpret_cast<A*>(shared_memory());
        weights = q + rows * size;
        sums = weights + rows * PAGED_KEYS;
        max = sums + groups * rows * size;
        sum = max + rows;
        factor = sum + rows;
    }
};

// R rows of queries.
template <int R, class T>
FASCICLE_DEVICE void paged_attention(const PagedAttentionParams& p) {
    using A = Acc<T>;
    u32 size = u32(p.head_size), thread = thread_x(), threads = block_size_x();
    // Threads that share the columns of values; as many groups of them have keys in turn.
    u32 across = 1;
    while (across < threads && across < size) across *= 2;
    u32 groups = threads / across;
    PagedShared<A> shared(R, size, groups);
    u64 split = block_x(), sequence = block_z(), groups_of_rows = (p.heads / p.kv_heads * p.queries + R - 1) / R;
    u64 kv_head = block_y() / groups_of_rows, first_row = block_y() % groups_of_rows * R;
    u64 most = p.table_pages * PAGE_TOKENS, keys = p.held[2 * sequence];
    keys = keys < most ? keys : most;
    AttentionSizes sizes = sizes_of(p, sequence, keys);
    PagedQuery queries[R];
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) queries[r] = paged_query(p, sizes, sequence, kv_head, first_row + u32(r));
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) {
        for (u32 e = thread; e < size; e += threads) {
            shared.q[r * size + e] = queries[r].exists ? A(widen(static_cast<const T*>(p.q)[queries[r].at + e])) : A(0);
        }
    }
    for (u32 i = thread; i < groups * R * size; i += threads) shared.sums[i] = 0;
    for (u32 r = thread; r < R; r += threads) {
        shared.max[r] = minus_infinity<A>();
        shared.sum[r] = 0;
    }
    // The part's keys that a query of the block meets.
    u64 begin = keys, end = 0;
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) {
        if (!queries[r].exists) continue;
        begin = queries[r].begin < begin ? queries[r].begin : begin;
        end = queries[r].end > end ? queries[r].end : end;
    }
    u64 from = split * p.split_pages * PAGE_TOKENS, to = from + p.split_pages * PAGE_TOKENS;
    begin = begin / PAGED_KEYS * PAGED_KEYS;
    begin = begin < from ? from : begin;
    end = end < to ? end : to;
    auto page_of = [&](u64 key) {
        u64 page = p.table[sequence * p.table_pages + key / PAGE_TOKENS];
        return page < p.pages ? page : p.pages - 1;
    };
    for (u64 first = begin; first < end; first += PAGED_KEYS) {
        barrier();
        u64 key = first + thread;
        A scores[R] = {};
        if (key < end) {
            const T* own = static_cast<const T*>(p.key_pages) + (page_of(key) * p.kv_heads + kv_head) * size * PAGE_TOKENS;
            own += key % PAGE_TOKENS;
            FASCICLE_UNROLL_4
            for (u32 e = 0; e < size; e++) {
                A element = A(widen(own[e * PAGE_TOKENS]));
                FASCICLE_UNROLL
                for (int r = 0; r < R; r++) scores[r] = multiply_add(shared.q[r * size + e], element, scores[r]);
            }
        }
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            // As a ScoreBound does it, whose numbers would be spilled.
            A score = A(p.scale) * scores[r];
            if (p.score_cap > 0) score = A(p.score_cap) * tanh_of(score / A(p.score_cap));
            bool meets = queries[r].exists && key >= queries[r].begin && key < queries[r].end && key < end;
            shared.weights[r * PAGED_KEYS + thread] = meets ? score : minus_infinity<A>();
        }
        barrier();
        for (u32 r = warp_index(); r < R; r += threads / WARP) {
            A* row = shared.weights + r * PAGED_KEYS;
            A before = shared.max[r], largest = before, sum = 0;
            for (u32 i = lane_index(); i < PAGED_KEYS; i += WARP) largest = larger(largest, row[i]);
            // All lanes have read what the first one writes below.
            largest = warp_max(largest);
            // A query that has met no key yet has no largest score.
            A base = largest == minus_infinity<A>() ? A(0) : largest;
            for (u32 i = lane_index(); i < PAGED_KEYS; i += WARP) {
                row[i] = exp_of(row[i] - base);
                sum += row[i];
            }
            sum = warp_sum(sum);
            A factor = exp_of(before - base);
            if (lane_index() == 0) {
                shared.sum[r] = shared.sum[r] * factor + sum;
                shared.factor[r] = factor;
                shared.max[r] = largest;
            }
        }
        barrier();
        // Memory behind the last value may hold anything.
        u32 count = u32(end - first < PAGED_KEYS ? end - first : PAGED_KEYS);
        const T* values[2] = {};
        FASCICLE_UNROLL
        for (u32 i = 0; i < 2; i++) {
            if (i * PAGE_TOKENS >= count) continue;
            u64 page = page_of(first + i * PAGE_TOKENS) * PAGE_TOKENS;
            values[i] = static_cast<const T*>(p.value_pages) + (page * p.kv_heads + kv_head) * size;
        }
        u64 step = p.kv_heads * size;
        for (u32 e = thread % across; e < size; e += across) {
            A sums[R] = {};
            FASCICLE_UNROLL_4
            for (u32 i = thread / across; i < count; i += groups) {
                const T* page = i < PAGE_TOKENS ? values[0] : values[1];
                A element = A(widen(page[i % PAGE_TOKENS * step + e]));
                FASCICLE_UNROLL
                for (int r = 0; r < R; r++) sums[r] = multiply_add(shared.weights[r * PAGED_KEYS + i], element, sums[r]);
            }
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                A* held = shared.sums + (thread / across * R + u32(r)) * size + e;
                *held = multiply_add(*held, shared.factor[r], sums[r]);
            }
        }
    }
    barrier();
    u64 rows = p.heads * p.queries;
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) {
        if (!queries[r].exists) continue;
        // Rows of a part are those of `out` in a sequence.
        u64 row = queries[r].at / size - sequence * rows;
        A* part = static_cast<A*>(p.parts) + ((sequence * p.splits + split) * rows + row) * (size + 2);
        A all = shared.sum[r], share = all > 0 ? A(1) / all : A(0);
        for (u32 e = thread; e < size; e += threads) {
            A sum = 0;
            for (u32 group = 0; group < groups; group++) sum += shared.sums[(group * R + u32(r)) * size + e];
            if (p.splits == 1) {
                static_cast<T*>(p.out)[queries[r].at + e] = narrow<T>(sum * share);
            } else {
                part[e] = sum;
            }
        }
        if (p.splits > 1 && thread == 0) {
            part[size] = shared.max[r];
            part[size + 1] = all;
        }
    }
}

// The parts of a row of outputs, a thread for each element.
template <class T>
FASCICLE_DEVICE void paged_attention_join(const PagedAttentionParams& p) {
    using A = Acc<T>;
    u64 size = p.head_size, rows = p.heads * p.queries;
    each_pack_of_rows<1>(p.sequences * rows, size, [&](u64 row, u64 e, u64) {
        const A* parts = static_cast<const A*>(p.parts) + (row / rows * p.splits * rows + row % rows) * (size + 2);
        u64 step = rows * (size + 2);
        A largest = minus_infinity<A>(), sum = 0, all = 0;
        for (u32 split = 0; split < p.splits; split++) largest = larger(largest, parts[split * step + size]);
        A base = largest == minus_infinity<A>() ? A(0) : largest;
        for (u32 split = 0; split < p.splits; split++) {
            const A* part = parts + split * step;
            A factor = exp_of(part[size] - base);
            sum = multiply_add(part[e], factor, sum);
            all = multiply_add(part[size + 1], factor, all);
        }
        static_cast<T*>(p.out)[row * size + e] = narrow<T>(all > 0 ? sum / all : A(0));
    });
}

}  // namespace fascicle

#define FASCICLE_PAGED_ATTENTION(suffix, T)                                                                            \
    FASCICLE_COOPERATIVE(fascicle_paged_attention_1_##suffix, fascicle::PagedAttentionParams, fascicle::PAGED_KEYS) {  \
        fascicle::paged_attention<1, T>(p);                                                                            \
    }                                                                                                                  \
    FASCICLE_COOPERATIVE(fascicle_paged_attention_4_##suffix, fascicle::PagedAttentionParams, fascicle::PAGED_KEYS) {  \
        fascicle::paged_attention<4, T>(p);                                                                            \
    }                                                                                                                  \
    FASCICLE_INDEPENDENT(fascicle_paged_attention_join_##suffix, fascicle::PagedAttentionParams, 256) {                \
        fascicle::paged_attention_join<T>(p);                                                                          \
    }
FASCICLE_FLOATS(FASCICLE_PAGED_ATTENTION)
