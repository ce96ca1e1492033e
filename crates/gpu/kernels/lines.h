// The largest element and the sum of squares of each row and column, exactly.
//
// A sum is one of numbers that were rounded to multiples of a unit, so that none of the additions rounds and any order gives the
// same bits. Each line has one block that adds to it: a block of threads for a row, another for 32 columns.
#pragma once

#include "exact_squares.h"

namespace fascicle {

constexpr u32 LINE_TENSORS = 32;
// Columns of a block of threads, each with 8 threads that share the rows.
constexpr u32 LINE_COLUMNS = 32;

struct LineEntry {
    const void* x;
    const void* largest;  // null where the largest are wanted
    void* lines;          // of the largest, or of sums
    u64 len;
    u64 columns;
    u64 start;
    double rounds;
    u32 first_block;
    u32 unused;
};

struct LineParams {
    u32 num_tensors;
    u32 unused;
    LineEntry tensors[LINE_TENSORS];
};

// The n for which a line is scaled by 2^-n.
FASCICLE_DEVICE int scale_of_line(double largest) {
    int exponent = exponent_of(fabs(largest));
    return exponent < 1024 ? exponent : 1024;
}

// A comparison with NaN is false, so a NaN becomes infinity.
FASCICLE_DEVICE double finite_size(double x) {
    const double infinity = -minus_infinity<double>();
    double size = fabs(x);
    return size < infinity ? size : infinity;
}

FASCICLE_DEVICE double rounded_square(double x, double rounds) { return (x * x + rounds) - rounds; }

// Where the elements of a row lie, of those that the entry has.
template <class Entry>
FASCICLE_DEVICE u64 first_of_row(const Entry& entry, u64 row) {
    u64 element = row * entry.columns;
    u64 low = element < entry.start ? entry.start : element;
    return (low < entry.start + entry.len ? low : entry.start + entry.len) - entry.start;
}

// The number of a block among those of its entry.
template <class Entry>
FASCICLE_DEVICE u64 block_of(const Entry& entry) { return block_x() - entry.first_block; }

template <class A, class Of, class Fold>
FASCICLE_DEVICE double over_row(const LineEntry& entry, u64 row, Of of, Fold fold) {
    u64 end = first_of_row(entry, row + 1);
    double all = 0;
    for (u64 i = first_of_row(entry, row) + thread_x(); i < end; i += block_size_x()) {
        all = fold(all, of(double(static_cast<const A*>(entry.x)[i])));
    }
    return all;
}

template <class A>
FASCICLE_DEVICE void row_largest(const LineParams& p) {
    const LineEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    u64 row = block_of(entry);
    double largest = over_row<A>(entry, row, finite_size, [](double a, double b) { return larger(a, b); });
    largest = block_max(largest, reinterpret_cast<double*>(shared_memory()));
    double* line = static_cast<double*>(entry.lines) + row;
    if (thread_x() == 0) *line = larger(*line, largest);
}

template <class A>
FASCICLE_DEVICE void row_squares(const LineParams& p) {
    const LineEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    u64 row = block_of(entry);
    double scale = power_of_two(-scale_of_line(static_cast<const double*>(entry.largest)[row]));
    auto square = [&](double x) { return rounded_square(x * scale, entry.rounds); };
    double sum = over_row<A>(entry, row, square, [](double a, double b) { return a + b; });
    sum = block_sum(sum, reinterpret_cast<double*>(shared_memory()));
    if (thread_x() == 0) static_cast<double*>(entry.lines)[row] += sum;
}

// Calls `of` with the elements of this thread's column and rows, joins what the threads of a column have folded, and calls
// `last(column, all)` with one of them.
template <class A, class Of, class Fold, class Last>
FASCICLE_DEVICE void over_column(const LineEntry& entry, Of of, Fold fold, Last last) {
    u64 column = block_of(entry) * LINE_COLUMNS + thread_x() % LINE_COLUMNS;
    u32 part = thread_x() / LINE_COLUMNS, parts = block_size_x() / LINE_COLUMNS;
    double all = 0;
    u64 end = entry.start + entry.len;
    for (u64 at = part * entry.columns + column; at < end && column < entry.columns; at += parts * entry.columns) {
        if (at >= entry.start) all = fold(all, of(column, double(static_cast<const A*>(entry.x)[at - entry.start])));
    }
    double* scratch = reinterpret_cast<double*>(shared_memory());
    scratch[thread_x()] = all;
    barrier();
    if (part != 0 || column >= entry.columns) return;
    for (u32 other = 1; other < parts; other++) all = fold(all, scratch[thread_x() + other * LINE_COLUMNS]);
    last(column, all);
}

template <class A>
FASCICLE_DEVICE void column_largest(const LineParams& p) {
    const LineEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    double* lines = static_cast<double*>(entry.lines);
    over_column<A>(
        entry, [](u64, double x) { return finite_size(x); }, [](double a, double b) { return larger(a, b); },
        [&](u64 column, double largest) { lines[column] = larger(lines[column], largest); });
}

template <class A>
FASCICLE_DEVICE void column_squares(const LineParams& p) {
    const LineEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    double* lines = static_cast<double*>(entry.lines);
    u64 column = block_of(entry) * LINE_COLUMNS + thread_x() % LINE_COLUMNS;
    double largest = column < entry.columns ? static_cast<const double*>(entry.largest)[column] : 0;
    double scale = power_of_two(-scale_of_line(largest));
    over_column<A>(
        entry, [&](u64, double x) { return rounded_square(x * scale, entry.rounds); },
        [](double a, double b) { return a + b; }, [&](u64 column, double sum) { lines[column] += sum; });
}

}  // namespace fascicle

#define FASCICLE_LINES(suffix, A)                                                                                        \
    FASCICLE_COOPERATIVE(fascicle_row_largest_##suffix, fascicle::LineParams, 256) { fascicle::row_largest<A>(p); }       \
    FASCICLE_COOPERATIVE(fascicle_row_squares_##suffix, fascicle::LineParams, 256) { fascicle::row_squares<A>(p); }       \
    FASCICLE_COOPERATIVE(fascicle_column_largest_##suffix, fascicle::LineParams, 256) { fascicle::column_largest<A>(p); } \
    FASCICLE_COOPERATIVE(fascicle_column_squares_##suffix, fascicle::LineParams, 256) { fascicle::column_squares<A>(p); }
FASCICLE_ACCUMULATORS(FASCICLE_LINES)
