// LayerNorm and RMSNorm, forward, of full rows: a row is read once, and stays in registers while its moments are computed. With an
// addend, the row is a sum, which is rounded and written before it is normalised.
//
// The moments are those of `moments`, by the same tree, and a row normalised by them has the bits of `normalize`.
#pragma once

#include "norm.h"

namespace fascicle {

struct NormForwardParams {
    NormSizes sizes;
    const void* x;       // or what is added to the addend
    const void* addend;  // or null; `out` may be this or `x`
    void* sum;           // for a sum alone
    const void* gain;
    const void* bias;  // or null
    void* moments;
    void* out;
    u64 warps_of_row;
};

// Chunks of a row that a warp keeps; `lower/norm_full.rs` knows it too.
constexpr int KEPT_CHUNKS = 4;
// The most threads of a block, which it knows too.
constexpr int FORWARD_THREADS = 256;

// Adds a lane's packs of another row to those that it keeps, each sum rounded as an element.
template <class T, int K>
FASCICLE_DEVICE void add_chunks(Pack<T, SIXTEEN_BYTES<T>> (&packs)[K], const T* from, u64 left) {
    Pack<T, SIXTEEN_BYTES<T>> addends[K];
    load_chunks(from, left, addends);
    FASCICLE_UNROLL
    for (int k = 0; k < K; k++) {
        auto sum = widened<Acc<T>>(packs[k]);
        add_pack(sum, widened<Acc<T>>(addends[k]));
        packs[k] = narrowed<T>(sum);
    }
}

// The node of a warp's columns from `start` on, in every lane: of the chunks that it keeps, if all of them are complete. If the row
// ends among them, at `end`, they are read again, one by one, because nodes that count their columns take many registers. A
// lane reads those that it keeps, so a sum that it has written is there.
template <class Node, class T>
FASCICLE_DEVICE Node join_kept(const Pack<T, SIXTEEN_BYTES<T>> (&packs)[KEPT_CHUNKS], const T* row, u64 start, u64 end) {
    if (start + KEPT_CHUNKS * CHUNK<T> <= end) {
        Node nodes[KEPT_CHUNKS];
        FASCICLE_UNROLL
        for (int k = 0; k < KEPT_CHUNKS; k++) node_of_pack(widened<Acc<T>>(packs[k]), u64(SIXTEEN_BYTES<T>), nodes[k]);
        return join_chunks(nodes, true, [](u32, Node left, Node right) { return Node::join(left, right); });
    }
    return join_row<Node>(row, start, end);
}

template <class Node, class T>
FASCICLE_DEVICE void norm_forward_by(const NormForwardParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    static_assert(FORWARD_THREADS / WARP <= MOST_JOINED_WARPS<1>, "a row is that of one block");
    u32 warps_of_row = u32(p.warps_of_row), rows_of_block = block_size_x() / WARP / warps_of_row;
    u32 row_of_block = warp_index() / warps_of_row, warp_of_row = warp_index() % warps_of_row;
    Node* of_warps = reinterpret_cast<Node*>(shared_memory()) + row_of_block * warps_of_row;
    u64 columns = p.sizes.columns, start = warp_of_row * (KEPT_CHUNKS * CHUNK<T>), column = start + lane_index() * N;
    u64 own = column < columns ? columns - column : 0;
    const T* x = static_cast<const T*>(p.addend == nullptr ? p.x : p.sum);
    // All warps of a block take part in its barriers, also those without a row.
    for (u64 first = u64(block_x()) * rows_of_block; first < p.sizes.rows; first += u64(grid_size_x()) * rows_of_block) {
        u64 row = first + row_of_block, left = row < p.sizes.rows ? own : 0;
        Pack<T, N> packs[KEPT_CHUNKS];
        load_chunks(static_cast<const T*>(p.x) + row * columns + column, left, packs);
        if (p.addend != nullptr) {
            add_chunks(packs, static_cast<const T*>(p.addend) + row * columns + column, left);
            T* sums = static_cast<T*>(p.sum) + row * columns + column;
            FASCICLE_UNROLL
            for (int k = 0; k < KEPT_CHUNKS; k++) store<N>(sums + k * CHUNK<T>, packs[k], left_behind<T>(left, k));
        }
        // A row that is not there has no columns.
        u64 end = row < p.sizes.rows ? columns : start;
        Node node = join_kept<Node>(packs, x + row * columns, start, end);
        if (warps_of_row > 1) {
            if (lane_index() == 0) of_warps[warp_of_row] = node;
            barrier();
            node = join_warps<1>(of_warps, warps_of_row);
            barrier();
        }
        RowMoments<A> moments = moments_of(node);
        if (row < p.sizes.rows && warp_of_row == 0 && lane_index() == 0) static_cast<RowMoments<A>*>(p.moments)[row] = moments;
        RowStatistics<A> statistics = statistics_of(p.sizes, moments.mean, moments.squares);
        FASCICLE_UNROLL
        for (int k = 0; k < KEPT_CHUNKS; k++) {
            u64 of_pack = left_behind<T>(left, k), at = column + k * CHUNK<T>;
            if (of_pack == 0) break;
            auto of_row = widened<A>(packs[k]);
            normalize_pack(of_row, statistics, factors_of<A>(load<N>(static_cast<const T*>(p.gain) + at, of_pack), p.sizes));
            if (p.bias != nullptr) add_pack(of_row, load_as<A, N>(static_cast<const T*>(p.bias) + at, of_pack));
            store_as<N>(static_cast<T*>(p.out) + row * columns + at, of_row, of_pack);
        }
    }
}

template <class T>
FASCICLE_DEVICE void norm_forward(const NormForwardParams& p) {
    if (p.sizes.centred) {
        norm_forward_by<MomentsNode<Acc<T>>, T>(p);
    } else {
        norm_forward_by<SumNode<Acc<T>>, T>(p);
    }
}

}  // namespace fascicle

#define FASCICLE_NORM_FORWARD(suffix, T)                                                                              \
    FASCICLE_RESIDENT(fascicle_norm_forward_##suffix, fascicle::NormForwardParams, fascicle::FORWARD_THREADS, 3) {    \
        fascicle::norm_forward<T>(p);                                                                                 \
    }
FASCICLE_FLOATS(FASCICLE_NORM_FORWARD)
