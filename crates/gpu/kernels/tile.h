// Matrix units: products of 16 x 16 tiles that a warp holds together.
//
// A `Sum` is a tile of f32, an `Operand` one of 16-bit elements. multiply(sum, left, right) adds to sum[i][j] the sum
// over k of left[i][k] * right[j][k]: both operands have their k along rows. What a lane holds of each, with warps of
// 32 (mma.sync m16n8k16) and of 64 (MFMA 16x16x16, called with the operands exchanged):
//
//   element e of   32 lanes, 8 elements                                   64 lanes, 4 elements
//   sum, left      row l / 4 + 8 (e / 2 % 2), column 2 (l % 4) + e % 2 + 8 (e / 4)   row l % 16, column 4 (l / 16) + e
//   right          row l / 4 + 8 (e / 4), column 2 (l % 4) + e % 2 + 8 (e / 2 % 2)   row l % 16, column 4 (l / 16) + e
//
// So sums serve as the left operand of the next multiplication where they are, with no exchange between lanes.
#pragma once

#include "pack.h"

namespace fascicle {

// Elements of a tile that a lane holds.
constexpr int HELD = 256 / int(WARP);
// Rows of a tile that a lane holds elements of.
constexpr int HELD_ROWS = WARP == 32 ? 2 : 1;

struct Sum { float at[HELD]; };

template <class T>
struct Operand { Pack<T, 2> at[HELD / 2]; };

// Row and column of element e of a sum or a left operand.
FASCICLE_DEVICE u32 row_held(int e) {
    return WARP == 32 ? lane_index() / 4 + 8 * u32(e / 2 % 2) : lane_index() % 16;
}
FASCICLE_DEVICE u32 first_column_held() { return WARP == 32 ? 2 * (lane_index() % 4) : 4 * (lane_index() / 16); }
// The column of element e, counted from that of element 0: the same for all lanes.
FASCICLE_DEVICE constexpr u32 column_offset(int e) { return WARP == 32 ? u32(e % 2) + 8 * u32(e / 4) : u32(e); }
FASCICLE_DEVICE u32 column_held(int e) { return first_column_held() + column_offset(e); }
// Which of the lane's rows element e is in.
FASCICLE_DEVICE constexpr int row_slot(int e) { return WARP == 32 ? e / 2 % 2 : 0; }

// Row of element e of a right operand, and its column.
FASCICLE_DEVICE u32 right_row_held(int e) {
    return WARP == 32 ? lane_index() / 4 + 8 * u32(e / 4) : lane_index() % 16;
}
FASCICLE_DEVICE u32 right_column_held(int e) {
    return WARP == 32 ? 2 * (lane_index() % 4) + u32(e % 2) + 8 * u32(e / 2 % 2) : 4 * (lane_index() / 16) + u32(e);
}

// The sum, or the largest, over the lanes that hold the same row.
template <class Combine>
FASCICLE_DEVICE float along_row(float value, Combine combine) {
    constexpr u32 first = WARP == 32 ? 1 : 16;
    value = combine(value, exchange(value, first));
    return combine(value, exchange(value, 2 * first));
}

FASCICLE_DEVICE void clear(Sum& sum) {
    FASCICLE_UNROLL
    for (int e = 0; e < HELD; e++) sum.at[e] = 0;
}

// Two numbers as elements, rounded to the nearest.
template <class T>
FASCICLE_DEVICE Pack<T, 2> narrow_pair(float a, float b) {
    Pack<T, 2> pair;
    pair.at[0] = narrow<T>(a);
    pair.at[1] = narrow<T>(b);
    return pair;
}

#if defined(FASCICLE_CUDA)
template <>
FASCICLE_DEVICE Pack<bf16, 2> narrow_pair<bf16>(float a, float b) {
    return same_bits<Pack<bf16, 2>>(__floats2bfloat162_rn(a, b));
}
template <>
FASCICLE_DEVICE Pack<f16, 2> narrow_pair<f16>(float a, float b) {
    return same_bits<Pack<f16, 2>>(__floats2half2_rn(a, b));
}
#endif

// A sum as the left operand of a multiplication.
template <class T>
FASCICLE_DEVICE Operand<T> as_left(const Sum& sum) {
    Operand<T> left;
    FASCICLE_UNROLL
    for (int i = 0; i < HELD / 2; i++) left.at[i] = narrow_pair<T>(sum.at[2 * i], sum.at[2 * i + 1]);
    return left;
}

// A left operand from rows `step` elements apart, of which `rows` exist; the others are 0. Pairs lie at multiples of their
// size.
template <class T>
FASCICLE_DEVICE Operand<T> load_left(const T* from, u64 step, u64 rows) {
    Operand<T> left;
    FASCICLE_UNROLL
    for (int i = 0; i < HELD / 2; i++) {
        u32 row = row_held(2 * i);
        left.at[i] = Pack<T, 2>{};
        if (row < rows) copy_whole<T, 2>(left.at[i].at, from + row * step + column_held(2 * i));
    }
    return left;
}

// Writes a sum, times the factor of each of the lane's rows, to rows `step` elements apart, of which `rows` exist. Pairs lie
// at multiples of their size.
template <class T>
FASCICLE_DEVICE void store_sum(T* to, u64 step, u64 rows, const Sum& sum, const float (&factor)[HELD_ROWS]) {
    FASCICLE_UNROLL
    for (int i = 0; i < HELD / 2; i++) {
        u32 row = row_held(2 * i);
        float by = factor[row_slot(2 * i)];
        auto pair = narrow_pair<T>(sum.at[2 * i] * by, sum.at[2 * i + 1] * by);
        if (row < rows) copy_whole<T, 2>(to + row * step + column_held(2 * i), pair.at);
    }
}

// Where element (row, column + step) of a tile of D columns lies in shared memory, for a column below 16 and a step
// that is a multiple of 16. The row permutes groups of 8 elements, so that the same columns of 8 rows lie in
// different banks. The place within a row depends on row % 8 alone, so the same registers serve rows 8 apart.
template <int D>
FASCICLE_DEVICE u32 swizzled(u32 row, u32 column, u32 step) {
    return row * D + ((((column / 8) ^ (row % 8)) * 8 + column % 8) ^ step);
}

}  // namespace fascicle

#include FASCICLE_TILES
