// Sums along a row by the tree of hal::sums over single columns: the same bits wherever a row is cut into nodes.
//
// A lane holds a pack of neighbouring columns, and a warp a chunk of WARP packs. Neighbours are joined within the pack, then
// across lanes, then across chunks. A column behind the end of the row is an empty node, which changes no bit of what it is
// joined with. So a row that ends within a chunk is added from its smallest node to its largest.
//
// A node type has `join(left, right)`, `empty()`, and `exchanged(mask)` and `of_lane(lane)`, its values in other lanes.
#pragma once

#include "loops.h"

namespace fascicle {

// A sum. It is empty as -0, which changes no number that it is added to, not even -0.
template <class A>
struct SumNode {
    A sum;

    static FASCICLE_DEVICE SumNode empty() { return {-A(0)}; }
    static FASCICLE_DEVICE SumNode join(SumNode left, SumNode right) { return {left.sum + right.sum}; }
    FASCICLE_DEVICE SumNode exchanged(u32 mask) const { return {exchange(sum, mask)}; }
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

// Joins the nodes of lanes that differ in the bits from `first` on: of the whole warp for 1. Every lane gets the result.
template <class Node>
FASCICLE_DEVICE Node join_lanes(Node node, u32 first = 1) {
    for (u32 mask = first; mask < WARP; mask *= 2) {
        Node other = node.exchanged(mask);
        bool is_right = lane_index() & mask;
        node = Node::join(is_right ? other : node, is_right ? node : other);
    }
    return node;
}

// Nodes that wait for their right neighbours: lane l holds the one of 2^l chunks. The numbers of chunks fit in 32 bits.
template <class Node>
struct WaitingNodes {
    Node own = Node::empty();
    u32 count = 0;

    // Takes the next chunk's node, which all lanes hold.
    FASCICLE_DEVICE void push(Node node) {
        u32 level = 0;
        for (; count >> level & 1; level++) node = Node::join(own.of_lane(level), node);
        if (lane_index() == level) own = node;
        count++;
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

// The node of the columns start..end of a row, in every lane of the warp; `start` is a multiple of a chunk. `of_pack(column,
// left)` returns that of the lane's pack of N columns, of which `left` are in the row, perhaps none.
template <int N, class Node, class OfPack>
FASCICLE_DEVICE Node join_columns(u64 start, u64 end, OfPack of_pack) {
    WaitingNodes<Node> waiting;
    for (u64 chunk = start; chunk < end; chunk += WARP * N) {
        u64 column = chunk + lane_index() * N;
        waiting.push(join_lanes<Node>(of_pack(column, column < end ? end - column : 0)));
    }
    return waiting.sum();
}

}  // namespace fascicle
