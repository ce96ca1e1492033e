// Tiles on AMD's matrix cores (gfx90a and later): MFMA 16x16x16, with the operands exchanged (tile.h says why).
#pragma once

#include "tile.h"

namespace fascicle {

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_right(const T* tile, u32 row, u32 column) {
    u32 lane = lane_index();
    auto four = load<4>(tile + swizzled<D>(row + lane % 16, 4 * (lane / 16), column), 4);
    return same_bits<Operand<T>>(four);
}

// A lane holds the same positions of either operand.
template <int D, class T>
FASCICLE_DEVICE Operand<T> load_left_shared(const T* tile, u32 row, u32 column) {
    return load_right<D>(tile, row, column);
}

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_right_transposed(const T* tile, u32 row, u32 column) {
    Operand<T> right;
    FASCICLE_UNROLL
    for (int e = 0; e < HELD; e++) {
        right.at[e / 2].at[e % 2] = tile[swizzled<D>(row + right_column_held(e), right_row_held(e), column)];
    }
    return right;
}

template <int D, class T>
FASCICLE_DEVICE Operand<T> load_left_transposed(const T* tile, u32 row, u32 column) {
    return load_right_transposed<D>(tile, row, column);
}

typedef float FourFloats __attribute__((ext_vector_type(4)));
typedef short FourBf16 __attribute__((ext_vector_type(4)));
typedef _Float16 FourF16 __attribute__((ext_vector_type(4)));

FASCICLE_DEVICE FourFloats matrix_unit(const Operand<bf16>& a, const Operand<bf16>& b, FourFloats c) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(same_bits<FourBf16>(a), same_bits<FourBf16>(b), c, 0, 0, 0);
#else
    return c;
#endif
}

FASCICLE_DEVICE FourFloats matrix_unit(const Operand<f16>& a, const Operand<f16>& b, FourFloats c) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_mfma_f32_16x16x16f16(same_bits<FourF16>(a), same_bits<FourF16>(b), c, 0, 0, 0);
#else
    return c;
#endif
}

template <class T>
FASCICLE_DEVICE void multiply(Sum& sum, const Operand<T>& left, const Operand<T>& right) {
    sum = same_bits<Sum>(matrix_unit(right, left, same_bits<FourFloats>(sum)));
}

// AMD has no copy that bypasses the registers. The barrier that follows orders these copies.
FASCICLE_DEVICE void copy_async(void* to, const void* from, bool exists) {
    *static_cast<uint4*>(to) = exists ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}
FASCICLE_DEVICE void commit_copies() {}
template <int Pending>
FASCICLE_DEVICE void await_copies() {}

}  // namespace fascicle
