// Dimensions permuted or repeated, and rows selected by a mask.
#pragma once

#include "loops.h"

namespace fascicle {

struct CopyStridedParams {
    const void* src;
    void* dst;
    u64 rows;  // product of the first three sizes
    u64 second;
    u64 third;
    u64 columns;
    u64 stride_0;
    u64 stride_1;
    u64 stride_2;
    u64 stride_3;
};

struct SelectRowsParams {
    const void* mask;
    const void* a;  // or null, for zeros
    const void* b;  // or null, for zeros
    void* out;
    u64 rows;
    u64 columns;
};

// A thread takes single elements, because neighbours in the result may lie far apart in the source.
template <class T>
FASCICLE_DEVICE void copy_strided(const CopyStridedParams& p) {
    each_pack_of_rows<1>(p.rows, p.columns, [&](u64 row, u64 column, u64) {
        u64 outer = row / p.third, inner = row % p.third;
        u64 from = outer / p.second * p.stride_0 + outer % p.second * p.stride_1 + inner * p.stride_2;
        T value = static_cast<const T*>(p.src)[from + column * p.stride_3];
        static_cast<T*>(p.dst)[row * p.columns + column] = value;
    });
}

template <class T>
FASCICLE_DEVICE void select_rows(const SelectRowsParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 row, u64 column, u64 left) {
        const void* side = static_cast<const u32*>(p.mask)[row] != 0 ? p.a : p.b;
        u64 at = row * p.columns + column;
        Pack<T, N> pack{};
        if (side != nullptr) pack = load<N>(static_cast<const T*>(side) + at, left);
        store<N>(static_cast<T*>(p.out) + at, pack, left);
    });
}

}  // namespace fascicle

#define FASCICLE_LAYOUT(bytes, T)                                                                                      \
    FASCICLE_INDEPENDENT(fascicle_copy_strided_##bytes, fascicle::CopyStridedParams, 256) { fascicle::copy_strided<T>(p); } \
    FASCICLE_INDEPENDENT(fascicle_select_rows_##bytes, fascicle::SelectRowsParams, 256) { fascicle::select_rows<T>(p); }
FASCICLE_LAYOUT(8, fascicle::u64)
FASCICLE_LAYOUT(4, fascicle::u32)
FASCICLE_LAYOUT(2, fascicle::u16)
FASCICLE_LAYOUT(1, fascicle::u8)
