// Tiles on NVIDIA's matrix units, compute capability 8.0 and up: ldmatrix, mma.sync and cp.async.
#pragma once

#include "tile.h"

namespace fascicle {

FASCICLE_DEVICE u32 shared_address(const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); }

template <class T>
FASCICLE_DEVICE const u32 (&words(const Operand<T>& operand))[4] {
    return reinterpret_cast<const u32(&)[4]>(operand);
}
template <class T>
FASCICLE_DEVICE u32 (&words(Operand<T>& operand))[4] { return reinterpret_cast<u32(&)[4]>(operand); }

// Where a lane finds its row of an 8 x 8 matrix for ldmatrix: at (row + own_row, column + own_column) of a shared tile. `row`
// is a multiple of 8, and is added last, so that it becomes an offset within the instruction.
template <int D, class T>
FASCICLE_DEVICE u32 lane_address(const T* tile, u32 row, u32 own_row, u32 column, u32 own_column) {
    return shared_address(tile) + u32(sizeof(T)) * swizzled<D>(own_row, own_column, column) + u32(sizeof(T)) * row * D;
}

// Four matrices of 8 x 8 at the lanes' addresses.
template <class T>
FASCICLE_DEVICE Operand<T> load_matrices(u32 at) {
    Operand<T> operand;
    u32(&w)[4] = words(operand);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at) : "memory");
    return operand;
}

// The same, each of them transposed.
template <class T>
FASCICLE_DEVICE Operand<T> load_matrices_transposed(u32 at) {
    Operand<T> operand;
    u32(&w)[4] = words(operand);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at) : "memory");
    return operand;
}

// The right operand whose rows are 16 rows of a shared tile, from (row, column) on.
template <int D, class T>
FASCICLE_DEVICE Operand<T> load_right(const T* tile, u32 row, u32 column) {
    u32 lane = lane_index();
    return load_matrices<T>(lane_address<D>(tile, row, lane / 16 * 8 + lane % 8, column, lane / 8 % 2 * 8));
}

// The left operand whose rows are 16 rows of a shared tile, from (row, column) on.
template <int D, class T>
FASCICLE_DEVICE Operand<T> load_left_shared(const T* tile, u32 row, u32 column) {
    u32 lane = lane_index();
    return load_matrices<T>(lane_address<D>(tile, row, lane % 16, column, lane / 16 * 8));
}

// The right operand whose rows are 16 columns of a shared tile, from (row, column) on.
template <int D, class T>
FASCICLE_DEVICE Operand<T> load_right_transposed(const T* tile, u32 row, u32 column) {
    u32 lane = lane_index();
    return load_matrices_transposed<T>(lane_address<D>(tile, row, lane % 16, column, lane / 16 * 8));
}

// The left operand whose rows are 16 columns of a shared tile, from (row, column) on.
template <int D, class T>
FASCICLE_DEVICE Operand<T> load_left_transposed(const T* tile, u32 row, u32 column) {
    u32 lane = lane_index();
    u32 at = lane_address<D>(tile, row, lane / 16 * 8 + lane % 8, column, lane / 8 % 2 * 8);
    return load_matrices_transposed<T>(at);
}

template <class T> struct MatrixUnit;

// Eight columns of the sum from sixteen k.
#define FASCICLE_MMA(T, name)                                                                                         \
    template <> struct MatrixUnit<T> {                                                                                \
        static FASCICLE_DEVICE void add(float* c, const u32 (&a)[4], u32 b0, u32 b1) {                                \
            asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "                                        \
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                     \
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                      \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                      \
        }                                                                                                             \
    };
FASCICLE_MMA(bf16, "bf16")
FASCICLE_MMA(f16, "f16")

template <class T>
FASCICLE_DEVICE void multiply(Sum& sum, const Operand<T>& left, const Operand<T>& right) {
    const u32(&a)[4] = words(left);
    const u32(&b)[4] = words(right);
    MatrixUnit<T>::add(sum.at, a, b[0], b[1]);
    MatrixUnit<T>::add(sum.at + 4, a, b[2], b[3]);
}

// Starts to copy 16 bytes into shared memory; where `exists` is false they become 0.
FASCICLE_DEVICE void copy_async(void* to, const void* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(exists ? 16 : 0) : "memory");
}

// Ends a group of copies.
FASCICLE_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups but the latest `Pending` have arrived.
template <int Pending>
FASCICLE_DEVICE void await_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(Pending) : "memory"); }

}  // namespace fascicle
