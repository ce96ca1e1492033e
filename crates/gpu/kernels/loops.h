// The two loops of kernels whose threads are independent: over a run of elements, and over the rows of a matrix.
#pragma once

#include "pack.h"

namespace fascicle {

// Calls `body(start, left)` for every pack of N elements of a run of `len`, spread over the grid.
template <int N, class Body>
FASCICLE_DEVICE void each_pack(u64 len, Body body) {
    u64 first = (u64(block_x()) * block_size_x() + thread_x()) * N;
    u64 step = u64(grid_size_x()) * block_size_x() * N;
    for (u64 start = first; start < len; start += step) body(start, len - start);
}

// Calls `body(row, column, left)` for every pack of N columns of every row: threads in x along the columns, in y down
// the rows.
template <int N, class Body>
FASCICLE_DEVICE void each_pack_of_rows(u64 rows, u64 columns, Body body) {
    u64 first_column = (u64(block_x()) * block_size_x() + thread_x()) * N;
    u64 column_step = u64(grid_size_x()) * block_size_x() * N;
    u64 first_row = u64(block_y()) * block_size_y() + thread_y();
    u64 row_step = u64(grid_size_y()) * block_size_y();
    for (u64 row = first_row; row < rows; row += row_step) {
        for (u64 column = first_column; column < columns; column += column_step) {
            body(row, column, columns - column);
        }
    }
}

// Calls `body(row)` with every warp for rows of its own.
template <class Body>
FASCICLE_DEVICE void each_row_of_warp(u64 rows, Body body) {
    u64 warps = block_size_x() / WARP;
    for (u64 row = block_x() * warps + warp_index(); row < rows; row += grid_size_x() * warps) body(row);
}

// Calls `body(column, left)` for this thread's packs of a row that `threads` threads share.
template <int N, class Body>
FASCICLE_DEVICE void each_pack_of_row(u64 columns, u32 thread, u32 threads, Body body) {
    for (u64 column = u64(thread) * N; column < columns; column += u64(threads) * N) body(column, columns - column);
}

}  // namespace fascicle
