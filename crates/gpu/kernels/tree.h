// Sums along a row by the tree of hal::sums over single columns: the same bits wherever a row is cut into nodes.
//
// A lane holds a pack of neighbouring columns, and a warp a chunk of WARP packs. Neighbours are joined within the pack, then
// across lanes, then across chunks. A column behind the end of the row is an empty node, which changes no bit of what it is
// joined with. So a row that ends within a chunk is added from its smallest node to its largest.
//
// A warp reads several chunks before it joins any. Their loads are in flight together, and where one chunk after another would
// leave every lane with the same node, lanes join different chunks.
//
// A node type has `join(left, right)`, `empty()`, and `exchanged(mask, alike)` and `of_lane(lane)`, its values in other lanes.
// Nodes are `alike` if they have equally many columns.
#pragma once

#include "loops.h"

namespace fascicle {

// A sum. It is empty as -0, which changes no number that it is added to, not even -0.
template <class A>
struct SumNode {
    A sum;

    static FASCICLE_DEVICE SumNode empty() { return {-A(0)}; }
    static FASCICLE_DEVICE SumNode join(SumNode left, SumNode right) { return {left.sum + right.sum}; }
    FASCICLE_DEVICE SumNode exchanged(u32 mask, bool) const { return {exchange(sum, mask)}; }
    FASCICLE_DEVICE SumNode of_lane(u32 lane) const { return {from_lane(sum, lane)}; }
};

// Joins the nodes of a lane's pack; N is a power of 2.
template <int N, class Node>
FASCICLE_DEVICE Node join_pack(Node (&nodes)[N]) {
    FASCICLE_UNROLL
    for (int width = 1; width < N; width *= 2) {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i += 2 * width) nodes[i] = Node::join(nodes[i], nodes[i + width]);
    }
    return nodes[0];
}

// The level of a node of so many chunks, a power of 2.
FASCICLE_DEVICE constexpr u32 level_of(u32 chunks) {
    u32 level = 0;
    for (; chunks > 1; chunks /= 2) level++;
    return level;
}

// Joins a lane's nodes with those of the lane whose index differs in `mask`, in the order of the lanes: the one that it keeps with
// the one that it is given.
template <class Node, class Join>
FASCICLE_DEVICE Node join_two(Node kept, Node given, u32 mask, bool alike, Join join) {
    Node other = given.exchanged(mask, alike);
    bool is_right = lane_index() & mask;
    return join(mask, is_right ? other : kept, is_right ? kept : other);
}

// Joins a lane's nodes of K chunks with those of the lanes that differ in the lowest bits of `mask` and above, K lanes in all.
// Two lanes share the work on their chunks: each joins half of them, and gives its nodes of the others away. So of the K lanes,
// lane l gets the node of chunk l.
template <class Node, class Join>
FASCICLE_DEVICE Node join_shared(Node (&nodes)[1], u32, bool, Join) { return nodes[0]; }

template <int K, class Node, class Join>
FASCICLE_DEVICE Node join_shared(Node (&nodes)[K], u32 mask, bool alike, Join join) {
    bool is_right = lane_index() & mask;
    Node half[K / 2];
    FASCICLE_UNROLL
    for (int i = 0; i < K / 2; i++) {
        Node even = nodes[2 * i], odd = nodes[2 * i + 1];
        half[i] = join_two(is_right ? odd : even, is_right ? even : odd, mask, alike, join);
    }
    return join_shared(half, 2 * mask, alike, join);
}

// The node of chunk l % K in lane l. Before, a lane holds the node of its pack in each of K chunks. `join(mask, left, right)`
// joins nodes of lanes that differ in `mask`.
template <int K, class Node, class Join>
FASCICLE_DEVICE Node join_each_chunk(Node (&nodes)[K], bool alike, Join join) {
    Node node = join_shared(nodes, 1, alike, join);
    FASCICLE_UNROLL
    for (u32 mask = K; mask < WARP; mask *= 2) node = join_two(node, node, mask, alike, join);
    return node;
}

// The node of K neighbouring chunks, in every lane. Otherwise as `join_each_chunk`.
template <int K, class Node, class Join>
FASCICLE_DEVICE Node join_chunks(Node (&nodes)[K], bool alike, Join join) {
    Node node = join_each_chunk(nodes, alike, join);
    auto by_chunk = [](u32, Node left, Node right) { return Node::join(left, right); };
    FASCICLE_UNROLL
    for (u32 mask = 1; mask < u32(K); mask *= 2) node = join_two(node, node, mask, alike, by_chunk);
    return node;
}

// The most warps of which `join_warps` joins the nodes.
template <int R> constexpr u32 MOST_JOINED_WARPS = 2 * WARP / R;

// The node of row l % R in lane l, from the nodes of `warps` warps, which hold neighbouring columns of R rows. The node of row r
// in warp w lies at `of_warps[w * R + r]`.
template <int R, class Node>
FASCICLE_DEVICE Node join_warps(const Node* of_warps, u32 warps) {
    u32 row = lane_index() % R, warp = lane_index() / R * 2;
    Node left = warp < warps ? of_warps[warp * R + row] : Node::empty();
    Node right = warp + 1 < warps ? of_warps[(warp + 1) * R + row] : Node::empty();
    Node node = Node::join(left, right);
    FASCICLE_UNROLL
    for (u32 mask = R; mask < WARP; mask *= 2) {
        node = join_two(node, node, mask, false, [](u32, Node left, Node right) { return Node::join(left, right); });
    }
    return node;
}

// The node of all lanes, in every lane.
template <class Node>
FASCICLE_DEVICE Node join_lanes(Node node) {
    Node nodes[1] = {node};
    return join_chunks(nodes, false, [](u32, Node left, Node right) { return Node::join(left, right); });
}

// Nodes that wait for their right neighbours: lane l holds the one of 2^l chunks. The numbers of chunks fit in 32 bits.
template <class Node>
struct WaitingNodes {
    Node own = Node::empty();
    u32 count = 0;

    // Takes the next node to the right, of 2^level chunks, which all lanes hold.
    FASCICLE_DEVICE void push(Node node, u32 level) {
        u32 chunks = 1u << level;
        for (; count >> level & 1; level++) node = Node::join(own.of_lane(level), node);
        if (lane_index() == level) own = node;
        count += chunks;
    }

    // The node of all chunks, in every lane; empty of none.
    FASCICLE_DEVICE Node sum() const {
        Node node = Node::empty();
        for (u32 level = 0; level < WARP && count >> level != 0; level++) {
            if (count >> level & 1) node = Node::join(own.of_lane(level), node);
        }
        return node;
    }
};

// Elements of type T that a warp reads at once.
template <class T> constexpr u64 CHUNK = WARP * SIXTEEN_BYTES<T>;

// How many of `left` elements are left behind the first `chunks` chunks.
template <class T>
FASCICLE_DEVICE u64 left_behind(u64 left, int chunks) {
    u64 before = u64(chunks) * CHUNK<T>;
    return left > before ? left - before : 0;
}

// A lane's packs of K chunks of a row, of which `left` elements follow `from`. All loads are issued before one is used.
template <int K, class T>
FASCICLE_DEVICE void load_chunks(const T* from, u64 left, Pack<T, SIXTEEN_BYTES<T>> (&packs)[K]) {
    constexpr int N = SIXTEEN_BYTES<T>;
    if (left >= (K - 1) * CHUNK<T> + N && is_aligned<T, N>(from)) {
        FASCICLE_UNROLL
        for (int k = 0; k < K; k++) copy_whole<T, N>(packs[k].at, from + k * CHUNK<T>);
        return;
    }
    FASCICLE_UNROLL
    for (int k = 0; k < K; k++) packs[k] = load<N>(from + k * CHUNK<T>, left_behind<T>(left, k));
}

// The node of the columns start..end of a row of elements of type T, in every lane of the warp; `start` is a multiple of a chunk.
// `of_chunks(column, left, nodes)` sets the nodes of a lane's packs of K chunks, or of one: the first begins at `column`, from
// which on the row has at least `left` elements; those behind them are empty. `join` as in `join_chunks`.
template <int K, class T, class Node, class OfChunks, class Join>
FASCICLE_DEVICE Node join_columns(u64 start, u64 end, OfChunks of_chunks, Join join) {
    constexpr u64 chunk = CHUNK<T>, batch = K * chunk, pack = SIXTEEN_BYTES<T>;
    WaitingNodes<Node> waiting;
    u64 from = start, own = lane_index() * pack;
    // `left` of complete chunks is a constant, so that the compiler drops the comparisons with it.
    for (; end - from >= batch; from += batch) {
        Node nodes[K];
        of_chunks(from + own, batch - chunk + pack, nodes);
        waiting.push(join_chunks(nodes, true, join), level_of(K));
    }
    for (; from < end; from += chunk) {
        Node node[1];
        bool complete = end - from >= chunk;
        if (complete) {
            of_chunks(from + own, pack, node);
        } else {
            of_chunks(from + own, from + own < end ? end - from - own : 0, node);
        }
        waiting.push(complete ? join_chunks(node, true, join) : join_chunks(node, false, join), 0);
    }
    return waiting.sum();
}

template <int K, class T, class Node, class OfChunks>
FASCICLE_DEVICE Node join_columns(u64 start, u64 end, OfChunks of_chunks) {
    return join_columns<K, T, Node>(start, end, of_chunks, [](u32, Node left, Node right) { return Node::join(left, right); });
}

}  // namespace fascicle
