// The two loops of kernels whose threads are independent: over a run of elements, and over the rows of a matrix.
#pragma once

#include "pack.h"

namespace fascicle {

// A number of packs or rows, as a type.
template <int R> struct Count { static constexpr int value = R; };

// Calls `body(start, left)` for every pack of N elements of a run of `len`, spread over the grid.
template <int N, class Body>
FASCICLE_DEVICE void each_pack(u64 len, Body body) {
    u64 first = (u64(block_x()) * block_size_x() + thread_x()) * N;
    u64 step = u64(grid_size_x()) * block_size_x() * N;
    for (u64 start = first; start < len; start += step) body(start, len - start);
}

// Calls `body(Count<R>, start, step, left)` for this thread's packs of N elements of a run of `len` that `threads` threads share,
// R at a time: each has at least `left` elements, and the next starts `step` elements behind the one before. Near the end of the
// run it gets one at a time.
template <int N, int R, class Body>
FASCICLE_DEVICE void each_packs_of_run(u64 len, u64 thread, u64 threads, Body body) {
    u64 step = threads * N, start = thread * N;
    for (; start + (R - 1) * step + N <= len; start += R * step) body(Count<R>{}, start, step, u64(N));
    for (; start < len; start += step) body(Count<1>{}, start, step, len - start);
}

// Packs of a thread of a flat run: enough that their loads cover the latency of memory. `lower/elementwise.rs` knows it too.
constexpr int FLAT_PACKS = 2;

// The same for a run that the whole grid shares.
template <int N, class Body>
FASCICLE_DEVICE void each_flat_packs(u64 len, Body body) {
    u64 thread = u64(block_x()) * block_size_x() + thread_x(), threads = u64(grid_size_x()) * block_size_x();
    each_packs_of_run<N, FLAT_PACKS>(len, thread, threads, body);
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

// Calls `body(Count<R>, row, start, step, left)` for every pack of N columns of every row, as `each_packs_of_run`: threads as in
// `each_pack_of_rows`.
template <int N, int R, class Body>
FASCICLE_DEVICE void each_packs_of_rows(u64 rows, u64 columns, Body body) {
    u64 thread = u64(block_x()) * block_size_x() + thread_x(), threads = u64(grid_size_x()) * block_size_x();
    u64 first_row = u64(block_y()) * block_size_y() + thread_y(), row_step = u64(grid_size_y()) * block_size_y();
    for (u64 row = first_row; row < rows; row += row_step) {
        each_packs_of_run<N, R>(columns, thread, threads,
                                [&](auto count, u64 start, u64 step, u64 left) { body(count, row, start, step, left); });
    }
}

// Calls `body(Count<R>, row)` for R rows at a time, from `row` on, and `body(Count<1>, row)` for each of the rest.
template <int R, class Body>
FASCICLE_DEVICE void each_rows(u64 row, u64 end, Body body) {
    for (; row + R <= end; row += R) body(Count<R>{}, row);
    for (; row < end; row++) body(Count<1>{}, row);
}

// Calls `body(first, end, column, left)` for every pack of N columns of every group of R rows, of which the last may have fewer:
// threads as in `each_pack_of_rows`. What depends on the column alone is then computed once for R rows.
template <int N, int R, class Body>
FASCICLE_DEVICE void each_pack_of_groups(u64 rows, u64 columns, Body body) {
    each_pack_of_rows<N>((rows + R - 1) / R, columns, [&](u64 group, u64 column, u64 left) {
        u64 first = group * R;
        body(first, first + R < rows ? first + R : rows, column, left);
    });
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
