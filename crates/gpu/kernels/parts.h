// Nodes of a row that were computed apart, such as by several ranks, joined to the node of the full row.
//
// All rows have the same parts, so the host computes which of them are joined when, from their columns. A thread joins the
// parts of a row; those that wait for their right neighbours lie in shared memory.
#pragma once

#include "numbers.h"

namespace fascicle {

// The most parts of a row.
constexpr u32 MOST_PARTS = 512;

// When part i is there, the last `counts[i]` nodes that wait are joined with it, one after another.
struct Joins { u8 counts[MOST_PARTS]; };

// `load(i)` returns part i of at least one. A node that waits lies at `waiting`, `step` nodes behind the one before it.
template <class Node, class Load>
FASCICLE_DEVICE Node join_parts(u64 parts, const Joins& joins, Node* waiting, u32 step, Load load) {
    Node node = load(0);
    u32 depth = 0;
    for (u64 part = 1; part < parts; part++) {
        waiting[depth++ * step] = node;
        node = load(part);
        for (u32 i = 0; i < joins.counts[part]; i++) node = Node::join(waiting[--depth * step], node);
    }
    return node;
}

}  // namespace fascicle
