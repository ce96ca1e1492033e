// Products of a warpgroup: four warps multiply 64 rows together, at the device's own pace.
//
// The tiles of both operands lie in shared memory, or those of the left one in registers. A sum of 64 rows is the `Sum`s of
// its warps: warp w of the group holds rows 16 w to 16 w + 15, so what follows a product is as for one warp's.
//
// A shared tile of D columns is cut into parts of 64 columns, one behind the other. Each row of a part has 128 bytes, whose
// groups of 16 are permuted by row % 8, as the hardware expects for "128-byte swizzling". Tiles lie at multiples of 1024.
//
// FASCICLE_GROUPS names the file with what the device does, where it has warpgroups.
#pragma once

#include "tile.h"

namespace fascicle {

constexpr u32 GROUP_WARPS = 4;
constexpr u32 GROUP_ROWS = 16 * GROUP_WARPS;
constexpr u32 GROUP_THREADS = GROUP_WARPS * WARP;
constexpr u32 TILE_ALIGNMENT = 1024;

// Where the 8 columns from `column` on of a row lie in a shared tile of `Rows` rows.
template <u32 Rows>
FASCICLE_DEVICE u32 part_swizzled(u32 row, u32 column) {
    return column / 64 * Rows * 64 + row * 64 + ((column / 8 % 8) ^ (row % 8)) * 8;
}

// The block's dynamic shared memory, from the first place on where a tile may lie.
template <class T>
FASCICLE_DEVICE T* shared_tiles() {
    u32 address = shared_address(shared_memory());
    return reinterpret_cast<T*>(shared_memory() + (TILE_ALIGNMENT - address % TILE_ALIGNMENT) % TILE_ALIGNMENT);
}

// Whether this thread is of the copying group, which is the last of a block.
template <u32 Groups>
FASCICLE_DEVICE bool copies() { return thread_x() >= Groups * GROUP_THREADS; }

}  // namespace fascicle

#include FASCICLE_GROUPS
