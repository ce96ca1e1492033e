// Kernels over rows and columns: blocks of matrices, bias and its gradient.
#pragma once

#include "loops.h"

namespace fascicle {

struct Copy2dParams {
    const void* src;
    void* dst;
    u64 src_leading;
    u64 dst_leading;
    u64 rows;
    u64 columns;
};

struct AddBiasParams {
    void* x;
    const void* bias;
    u64 rows;
    u64 columns;
};

// Column sums of each part of the rows: `parts` rows of `columns` numbers.
struct ColumnPartsParams {
    const void* x;
    void* partials;
    u64 rows;
    u64 columns;
    u64 rows_of_part;
};

// Adds the sums of all parts to beta times a row of numbers. Blocks of the second row of the grid add the sums that lie `columns`
// numbers behind them to a second row of numbers.
struct AddPartsParams {
    const void* partials;
    void* out;
    void* second;
    double beta;  // 0 does not read them
    u64 columns;
    u64 parts;
    u64 part_step;  // numbers from one part to the next
};

template <class T>
FASCICLE_DEVICE void copy_2d(const Copy2dParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 row, u64 column, u64 left) {
        auto pack = load<N>(static_cast<const T*>(p.src) + row * p.src_leading + column, left);
        store<N>(static_cast<T*>(p.dst) + row * p.dst_leading + column, pack, left);
    });
}

template <class T>
FASCICLE_DEVICE void add_bias(const AddBiasParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.rows, p.columns, [&](u64 row, u64 column, u64 left) {
        T* at = static_cast<T*>(p.x) + row * p.columns + column;
        auto x = load_as<Acc<T>, N>(static_cast<const T*>(at), left);
        auto bias = load_as<Acc<T>, N>(static_cast<const T*>(p.bias) + column, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) x.at[i] += bias.at[i];
        store_as<N>(at, x, left);
    });
}

// A thread sums its columns down the rows of its part, in order; it reads several rows before it adds them.
template <class T>
FASCICLE_DEVICE void column_parts(const ColumnPartsParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 column = (u64(block_x()) * block_size_x() + thread_x()) * N;
    u64 part = u64(block_y()) * block_size_y() + thread_y();
    u64 first = part * p.rows_of_part;
    if (column >= p.columns || first >= p.rows) return;
    u64 end = first + p.rows_of_part < p.rows ? first + p.rows_of_part : p.rows;
    Pack<A, N> sum{};
    each_rows<8>(first, end, [&](auto count, u64 row) {
        Pack<T, N> packs[decltype(count)::value];
        load_each(static_cast<const T*>(p.x) + row * p.columns + column, p.columns, p.columns - column, packs);
        FASCICLE_UNROLL
        for (const Pack<T, N>& pack : packs) {
            auto x = widened<A>(pack);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) sum.at[i] += x.at[i];
        }
    });
    store<N>(static_cast<A*>(p.partials) + part * p.columns + column, sum, p.columns - column);
}

// Runs of parts, which threads in y add at the same time; `lower/columns.rs` knows it too.
constexpr u32 ADDING_RUNS = 8;

// The sums of a run are added in order, and then those of the runs.
template <class A, class T>
FASCICLE_DEVICE void add_parts(const AddPartsParams& p) {
    A* of_runs = reinterpret_cast<A*>(shared_memory()) + thread_x();
    u64 column = u64(block_x()) * block_size_x() + thread_x();
    u64 parts_of_run = (p.parts + ADDING_RUNS - 1) / ADDING_RUNS, first = thread_y() * parts_of_run;
    u64 end = column >= p.columns ? 0 : first + parts_of_run < p.parts ? first + parts_of_run : p.parts;
    const A* partials = static_cast<const A*>(p.partials) + block_y() * p.columns + column;
    A sum = 0;
    each_rows<32>(first, end, [&](auto count, u64 part) {
        A sums[decltype(count)::value];
        FASCICLE_UNROLL
        for (int i = 0; i < decltype(count)::value; i++) sums[i] = partials[(part + i) * p.part_step];
        FASCICLE_UNROLL
        for (A of_part : sums) sum += of_part;
    });
    of_runs[thread_y() * block_size_x()] = sum;
    barrier();
    if (thread_y() > 0 || column >= p.columns) return;
    FASCICLE_UNROLL
    for (u32 run = 1; run < ADDING_RUNS; run++) sum += of_runs[run * block_size_x()];
    T* out = static_cast<T*>(block_y() == 0 ? p.out : p.second) + column;
    if (p.beta != 0) sum += A(p.beta) * A(widen(*out));
    *out = narrow<T>(sum);
}

}  // namespace fascicle

#define FASCICLE_COPY_2D(bytes, T) \
    FASCICLE_INDEPENDENT(fascicle_copy_2d_##bytes, fascicle::Copy2dParams, 256) { fascicle::copy_2d<T>(p); }
FASCICLE_COPY_2D(8, fascicle::u64)
FASCICLE_COPY_2D(4, fascicle::u32)
FASCICLE_COPY_2D(2, fascicle::u16)
FASCICLE_COPY_2D(1, fascicle::u8)

#define FASCICLE_COLUMNS(suffix, T)                                                                              \
    FASCICLE_INDEPENDENT(fascicle_add_bias_##suffix, fascicle::AddBiasParams, 256) { fascicle::add_bias<T>(p); } \
    FASCICLE_INDEPENDENT(fascicle_column_parts_##suffix, fascicle::ColumnPartsParams, 256) {                     \
        fascicle::column_parts<T>(p);                                                                            \
    }                                                                                                            \
    FASCICLE_COOPERATIVE(fascicle_add_parts_##suffix, fascicle::AddPartsParams, 256) {                           \
        fascicle::add_parts<fascicle::Acc<T>, T>(p);                                                             \
    }
FASCICLE_FLOATS(FASCICLE_COLUMNS)
