// Tiles on the host: each lane holds the elements that it would hold on a device, and computes its elements of the sum.
#pragma once

#include "tile.h"

namespace fascicle {

FASCICLE_DEVICE u32 shared_address(const void* pointer) {
    return simt::SHARED_START + u32(static_cast<const u8*>(pointer) - shared_memory());
}

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_right(const T* tile, u32 row, u32 column) {
    Operand<T> right;
    for (int e = 0; e < HELD; e++) {
        right.at[e / 2].at[e % 2] = tile[swizzled<D>(row + right_row_held(e), right_column_held(e), column)];
    }
    return right;
}

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_left_shared(const T* tile, u32 row, u32 column) {
    Operand<T> left;
    for (int e = 0; e < HELD; e++) {
        left.at[e / 2].at[e % 2] = tile[swizzled<D>(row + row_held(e), column_held(e), column)];
    }
    return left;
}

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_right_transposed(const T* tile, u32 row, u32 column) {
    Operand<T> right;
    for (int e = 0; e < HELD; e++) {
        right.at[e / 2].at[e % 2] = tile[swizzled<D>(row + right_column_held(e), right_row_held(e), column)];
    }
    return right;
}

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_left_transposed(const T* tile, u32 row, u32 column) {
    Operand<T> left;
    for (int e = 0; e < HELD; e++) {
        left.at[e / 2].at[e % 2] = tile[swizzled<D>(row + column_held(e), row_held(e), column)];
    }
    return left;
}

// Who holds element (row, column) of a sum or a left operand, and as which of its elements.
FASCICLE_DEVICE u32 lane_holding(u32 row, u32 column) {
    return WARP == 32 ? row % 8 * 4 + column % 8 / 2 : row + 16 * (column / 4);
}
FASCICLE_DEVICE u32 element_holding(u32 row, u32 column) {
    return WARP == 32 ? column % 2 + 2 * (row / 8) + 4 * (column / 8) : column % 4;
}

// Two operands, as a lane shows them to its warp.
template <class T>
struct Operands { Operand<T> left, right; };

// Element (row, k) of the left or right operand that the warp has shown.
template <class T>
FASCICLE_DEVICE float left_shown(const uint8_t* shown, u32 row, u32 k) {
    u32 e = element_holding(row, k);
    auto operands = reinterpret_cast<const Operands<T>*>(shown + lane_holding(row, k) * simt::SHOWN_BYTES);
    return widen(operands->left.at[e / 2].at[e % 2]);
}
template <class T>
FASCICLE_DEVICE float right_shown(const uint8_t* shown, u32 row, u32 k) {
    u32 e = WARP == 32 ? k % 2 + 2 * (k / 8) + 4 * (row / 8) : k % 4;
    auto operands = reinterpret_cast<const Operands<T>*>(shown + lane_holding(row, k) * simt::SHOWN_BYTES);
    return widen(operands->right.at[e / 2].at[e % 2]);
}

template <class T>
FASCICLE_DEVICE void multiply(Sum& sum, const Operand<T>& left, const Operand<T>& right) {
    Operands<T> own{left, right};
    static_assert(sizeof(own) <= simt::SHOWN_BYTES, "fits what a lane can show");
    const uint8_t* shown = simt::show(&own, sizeof(own));
    // A lane's elements lie in few rows and columns: each is widened once.
    constexpr int COLUMNS = HELD / HELD_ROWS;
    float a[HELD_ROWS][16], b[COLUMNS][16];
    for (u32 k = 0; k < 16; k++) {
        for (int r = 0; r < HELD_ROWS; r++) a[r][k] = left_shown<T>(shown, row_held(2 * r), k);
        for (int c = 0; c < COLUMNS; c++) {
            b[c][k] = right_shown<T>(shown, column_held(WARP == 32 ? c % 2 + 4 * (c / 2) : c), k);
        }
    }
    for (int e = 0; e < HELD; e++) {
        const float* left_row = a[row_slot(e)];
        const float* right_row = b[WARP == 32 ? e % 2 + 2 * (e / 4) : e];
        for (int k = 0; k < 16; k++) sum.at[e] += left_row[k] * right_row[k];
    }
}

FASCICLE_DEVICE void copy_async(void* to, const void* from, bool exists) {
    FASCICLE_ACCESS(to, 16);
    FASCICLE_ACCESS(from, 16);
    simt::copy_later(to, from, 16, exists);
}
FASCICLE_DEVICE void commit_copies() { simt::end_copies(); }
template <int Pending>
FASCICLE_DEVICE void await_copies() { simt::await_copies(Pending); }

}  // namespace fascicle
