// Products of warpgroups on the host: each warp computes its 16 rows.
//
// A product takes the operands as they are when it ends, which is late (groups.h): a tile that is overwritten too early shows,
// as do a sum that is read too early, and copies to the tile that publish_copies() has not made visible to products. What does not
// show: ordinary writes to a tile without a fence, which is what a program of its own would need.
#pragma once

#include "group.h"
#include "groups.h"

#define FASCICLE_HOPPER(name, Params, groups) FASCICLE_COOPERATIVE(name, Params, (groups + 1) * fascicle::GROUP_THREADS)

namespace fascicle {

// Registers are not counted, and the compiler moves nothing across products: it does not see what they access.
template <u32 Groups>
FASCICLE_DEVICE void take_registers() {}
template <u32 Groups>
FASCICLE_DEVICE void give_registers() {}
template <int N>
FASCICLE_DEVICE void hold(Sum (&)[N]) {}
template <class T, int N>
FASCICLE_DEVICE void hold(Operand<T> (&)[N]) {}
FASCICLE_DEVICE void stay_before_wait(float) {}

// A shared tile of `Rows` rows.
template <u32 Rows>
struct GroupTile {
    const void* at;

    template <class T>
    FASCICLE_DEVICE explicit GroupTile(const T* tile) : at(tile) {
        if (shared_address(tile) % TILE_ALIGNMENT != 0) simt::misaligned(tile, TILE_ALIGNMENT);
    }
};

template <class T, u32 Rows, int D>
inline void widen_row(const void* tile, u32 row, float (&to)[D]) {
    for (u32 column = 0; column < D; column += 8) {
        const T* from = static_cast<const T*>(tile) + part_swizzled<Rows>(row, column);
        simt::product_reads(from, 8 * sizeof(T));
        for (u32 i = 0; i < 8; i++) to[column + i] = widen(from[i]);
    }
}

// A column of a warp's 16 rows.
typedef float Column __attribute__((vector_size(64)));

// Adds left[k][row] * right(k, column) to the lanes' sums of N columns, in the order of k.
template <int K, int N, class Right>
inline void add_to_lanes(const simt::Product* of_lanes, const Column (&left)[K], Right right) {
    constexpr int TOGETHER = 4;  // sums that the processor computes at a time
    auto held = [&](u32 row, u32 column) -> float& {
        return of_lanes[lane_holding(row, column % 16)].sum[column / 16 * HELD + element_holding(row, column % 16)];
    };
    for (u32 column = 0; column < N; column += TOGETHER) {
        Column sum[TOGETHER];
        for (u32 row = 0; row < 16; row++) {
            for (u32 i = 0; i < TOGETHER; i++) sum[i][row] = held(row, column + i);
        }
        for (u32 k = 0; k < K; k++) {
            for (u32 i = 0; i < TOGETHER; i++) sum[i] += left[k] * right(k, column + i);
        }
        for (u32 row = 0; row < 16; row++) {
            for (u32 i = 0; i < TOGETHER; i++) held(row, column + i) = sum[i][row];
        }
    }
}

template <class T, int D, int Columns, u32 LeftRows>
void multiply_scores(const simt::Product* of_lanes) {
    Column left[D];
    float right[Columns][D], own[D];
    for (u32 row = 0; row < 16; row++) {
        widen_row<T, LeftRows>(of_lanes->left, of_lanes->row + row, own);
        for (u32 k = 0; k < D; k++) left[k][row] = own[k];
    }
    for (u32 row = 0; row < Columns; row++) widen_row<T, Columns>(of_lanes->right, row, right[row]);
    add_to_lanes<D, Columns>(of_lanes, left, [&](u32 k, u32 column) { return right[column][k]; });
}

template <class T, int D, int Rows>
void multiply_sums(const simt::Product* of_lanes) {
    Column left[Rows];
    float right[Rows][D];
    for (u32 row = 0; row < 16; row++) {
        for (u32 k = 0; k < Rows; k++) {
            auto held = static_cast<const T*>(of_lanes[lane_holding(row, k % 16)].registers);
            left[k][row] = widen(held[k / 16 * HELD + element_holding(row, k % 16)]);
        }
    }
    for (u32 row = 0; row < Rows; row++) widen_row<T, Rows>(of_lanes->right, row, right[row]);
    add_to_lanes<Rows, D>(of_lanes, left, [&](u32 k, u32 column) { return right[k][column]; });
}

FASCICLE_DEVICE void begin_products() { simt::begin_products(); }
template <int Pending>
FASCICLE_DEVICE void await_products() { simt::await_products(Pending); }

template <class T, int D, int Columns, u32 LeftRows>
FASCICLE_DEVICE void start_scores(Sum (&sum)[Columns / 16], GroupTile<LeftRows> left, u32 row, GroupTile<Columns> right) {
    static_assert(Columns / 16 * HELD <= simt::MOST_HELD, "fits what a lane keeps");
    u32 own = row + 16 * (warp_index() % GROUP_WARPS);
    simt::start_product({multiply_scores<T, D, Columns, LeftRows>, left.at, nullptr, right.at, own, sum->at,
                         Columns / 16 * HELD, false});
}

template <class T, int D, int Rows>
FASCICLE_DEVICE void start_sums(Sum (&sum)[D / 16], Operand<T> (&left)[Rows / 16], GroupTile<Rows> right) {
    static_assert(D / 16 * HELD <= simt::MOST_HELD, "fits what a lane keeps");
    simt::start_product({multiply_sums<T, D, Rows>, nullptr, left, right.at, 0, sum->at, D / 16 * HELD, true});
}

FASCICLE_DEVICE void copy_word_async(void* to, const void* from, bool exists) {
    FASCICLE_ACCESS(to, 4);
    FASCICLE_ACCESS(from, 4);
    simt::copy_later(to, from, 4, exists);
}

FASCICLE_DEVICE void init_barrier(u32 at, u32 arrivals) { simt::init_barrier(at, arrivals); }
FASCICLE_DEVICE void arrive(u32 at) { simt::arrive(at); }
FASCICLE_DEVICE void await_phase(u32 at, u32 parity) { simt::await_phase(at, parity); }
FASCICLE_DEVICE void await_group(u32 index) { simt::await_named(index, 2 * GROUP_THREADS); }
FASCICLE_DEVICE void meet_group(u32 index) { simt::meet_named(index, 2 * GROUP_THREADS); }

template <int Pending>
FASCICLE_DEVICE void publish_copies() { simt::publish_copies(Pending); }

}  // namespace fascicle
