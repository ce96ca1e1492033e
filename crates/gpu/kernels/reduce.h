// Sums and maxima over a warp and over a block, always in the same order.
#pragma once

#include "portable.h"
#include "numbers.h"

namespace fascicle {

// The sum over all lanes, in every lane.
template <class A>
FASCICLE_DEVICE A warp_sum(A value) {
    FASCICLE_UNROLL
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) value += exchange(value, mask);
    return value;
}

// The largest of all lanes, in every lane.
template <class A>
FASCICLE_DEVICE A warp_max(A value) {
    FASCICLE_UNROLL
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) value = larger(value, exchange(value, mask));
    return value;
}

// The sum over all threads, in every thread; `scratch` holds one number for each warp.
template <class A>
FASCICLE_DEVICE A block_sum(A value, A* scratch) {
    value = warp_sum(value);
    barrier();
    if (lane_index() == 0) scratch[warp_index()] = value;
    barrier();
    A sum = 0;
    for (u32 warp = 0; warp < block_size_x() / WARP; warp++) sum += scratch[warp];
    return sum;
}

// The largest of all threads, in every thread; `scratch` as in `block_sum`.
template <class A>
FASCICLE_DEVICE A block_max(A value, A* scratch) {
    value = warp_max(value);
    barrier();
    if (lane_index() == 0) scratch[warp_index()] = value;
    barrier();
    A largest = scratch[0];
    for (u32 warp = 1; warp < block_size_x() / WARP; warp++) largest = larger(largest, scratch[warp]);
    return largest;
}

}  // namespace fascicle
