// Tiles that one warpgroup copies into shared memory for the others, which multiply them: a ring for each kind of tile.
//
// The copying group waits until a place of the ring is empty, and announces a tile once its copies have arrived. The others
// wait for the tile, and each of their warps releases the place when its products have read it. Nobody waits for a barrier of
// the whole block, so the groups are at different points of their loops: while one computes weights, the matrix units work for
// another.
#pragma once

#include "attention.h"
#include "group.h"

namespace fascicle {

// A ring of `Stages` places for `Groups` multiplying groups; tile n is in place n % Stages. It has two barriers per place.
template <u32 Stages, u32 Groups>
struct Ring {
    static constexpr u32 BARRIERS = 2 * Stages;
    u32 full, empty;

    FASCICLE_DEVICE explicit Ring(u64* barriers) : full(shared_address(barriers)), empty(full + 8 * Stages) {}

    // By one thread, before a barrier of the block.
    FASCICLE_DEVICE void init() const {
        for (u32 i = 0; i < Stages; i++) {
            init_barrier(full + 8 * i, GROUP_THREADS);
            init_barrier(empty + 8 * i, Groups * GROUP_WARPS);
        }
    }

    // Of the copying group.
    FASCICLE_DEVICE void await_empty(u32 tile) const { await_phase(empty + 8 * (tile % Stages), tile / Stages % 2 ^ 1); }
    FASCICLE_DEVICE void announce(u32 tile) const { arrive(full + 8 * (tile % Stages)); }

    // Of the others.
    FASCICLE_DEVICE void await_full(u32 tile) const { await_phase(full + 8 * (tile % Stages), tile / Stages % 2); }
    FASCICLE_DEVICE void release(u32 tile) const {
        if (lane_index() == 0) arrive(empty + 8 * (tile % Stages));
    }
};

// The multiplying groups take turns to start their products, in order, so that each computes while those of others run. All
// have as many turns.
template <u32 Groups>
struct Turns {
    u32 group;

    FASCICLE_DEVICE explicit Turns(u32 group) : group(group) {
        if (group == Groups - 1) pass();
    }
    FASCICLE_DEVICE void await() const { await_group(1 + group); }
    // The last turn of the last group has none after it.
    FASCICLE_DEVICE void pass(bool is_last = false) const {
        u32 next = group + 1 == Groups ? 0 : group + 1;
        if (!is_last || next != 0) meet_group(1 + next);
    }
};

// Copies all tiles of a ring: `fetch(tile)` starts the copies of one. Each is announced once those of the next have started.
template <u32 Stages, u32 Groups, class Fetch>
FASCICLE_DEVICE void copy_tiles(const Ring<Stages, Groups>& ring, u32 tiles, Fetch fetch) {
    for (u32 tile = 0; tile < tiles; tile++) {
        ring.await_empty(tile);
        fetch(tile);
        commit_copies();
        if (tile == 0) continue;
        publish_copies<1>();
        ring.announce(tile - 1);
    }
    publish_copies<0>();
    if (tiles > 0) ring.announce(tiles - 1);
}

// A head's rows, as a thread of the copying group copies them: the same columns of every 8th or 16th row.
template <int D, class T>
struct GroupSource {
    static constexpr u32 STEP = GROUP_THREADS * 8 / D;
    const T* own;  // the thread's first element of row 0
    u64 stride;    // from a row to the next
    u32 count;     // of the head's rows

    FASCICLE_DEVICE GroupSource(const void* from, const HeadRows& rows)
        : own(static_cast<const T*>(from) + rows.at(thread() / (D / 8)) * D + thread() % (D / 8) * 8),
          stride(rows.heads * D), count(u32(rows.count)) {}

    static FASCICLE_DEVICE u32 thread() { return thread_x() % GROUP_THREADS; }

    // Starts to copy `Rows` rows from row `first` on; rows past the end become 0.
    template <u32 Rows>
    FASCICLE_DEVICE void fetch(u32 first, T* tile) const {
        u32 row = thread() / (D / 8), column = thread() % (D / 8) * 8;
        T* to = tile + part_swizzled<Rows>(row, column);
        const T* from = own + first * stride;
        i32 left = i32(count - first - row);  // of the rows from the thread's first on
        // Few at once: the copying group has few registers.
        FASCICLE_UNROLL_4
        for (u32 round = 0; round < Rows / STEP; round++) {
            copy_async(to + round * STEP * 64, from, left > 0);
            from += STEP * stride;
            left -= i32(STEP);
        }
    }
};

}  // namespace fascicle
