// The transpose of a matrix, for GEMMs that run faster on the other storage order.
#pragma once

#include "portable.h"

namespace fascicle {

// `out`, of `columns` rows without gaps, gets the transpose of `rows` x `columns` elements, `leading` apart from row to
// row.
struct TransposeParams {
    const void* x;
    void* out;
    u64 leading;
    u64 rows;
    u64 columns;
};

// Side of the square that a block transposes in shared memory, so that reads and writes both run along rows.
constexpr u32 TURN = 32;
// Rows of it that the block's threads take at a time.
constexpr u32 TURN_ROWS = 8;

template <class T>
FASCICLE_DEVICE void transpose(const TransposeParams& p) {
    // One column more than the square has, so that the elements of a column lie in different banks.
    T* square = reinterpret_cast<T*>(shared_memory());
    const T* x = static_cast<const T*>(p.x);
    T* out = static_cast<T*>(p.out);
    u64 column = u64(block_x()) * TURN + thread_x();
    u64 out_column = thread_x(), out_row = u64(block_x()) * TURN;
    for (u64 top = u64(block_y()) * TURN; top < p.rows; top += u64(grid_size_y()) * TURN) {
        for (u32 i = thread_y(); i < TURN; i += TURN_ROWS) {
            if (top + i < p.rows && column < p.columns)
                square[i * (TURN + 1) + thread_x()] = x[(top + i) * p.leading + column];
        }
        barrier();
        for (u32 i = thread_y(); i < TURN; i += TURN_ROWS) {
            if (out_row + i < p.columns && top + out_column < p.rows)
                out[(out_row + i) * p.rows + top + out_column] = square[thread_x() * (TURN + 1) + i];
        }
        barrier();
    }
}

}  // namespace fascicle

#define FASCICLE_TRANSPOSE(bytes, T) \
    FASCICLE_COOPERATIVE(fascicle_transpose_##bytes, fascicle::TransposeParams, 256) { fascicle::transpose<T>(p); }
FASCICLE_TRANSPOSE(8, fascicle::u64)
FASCICLE_TRANSPOSE(4, fascicle::u32)
FASCICLE_TRANSPOSE(2, fascicle::u16)
