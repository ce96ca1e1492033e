// What warpgroups do on NVIDIA's devices of compute capability 9.0: wgmma, mbarrier, named barriers, setmaxnreg.
//
// Source: NVIDIA, "Parallel Thread Execution ISA", 9.7.13 "Parallel Synchronization and Communication Instructions" and 9.7.15
// "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "group.h"

// A kernel of blocks of `groups` multiplying groups and the copying one, which is the last. Registers can move only where the
// compiler knows how many a thread has at the start: with one block per multiprocessor.
#define FASCICLE_HOPPER(name, Params, groups) \
    extern "C" __global__ void __launch_bounds__((groups + 1) * fascicle::GROUP_THREADS, 1) name(const Params p)

namespace fascicle {

// Registers move from the copying group to the others, whose sums take most of what they get. The 65,536 of a multiprocessor
// suffice for both numbers.
template <u32 Groups>
FASCICLE_DEVICE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Groups == 2 ? 232 : 160) : "memory");
}
template <u32 Groups>
FASCICLE_DEVICE void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Groups == 2 ? 40 : 32) : "memory");
}

// What the hardware reads of a tile at a shared address: 8 rows take 1024 bytes; `part` are the bytes of 64 columns, which it
// skips to reach the next 64 columns of a right operand that is given by its columns.
FASCICLE_DEVICE u64 tile_descriptor(u32 address, u32 part) {
    return u64(address / 16 & 0x3fff) | u64(part / 16) << 16 | u64(1024 / 16) << 32 | u64(1) << 62;
}

// A shared tile of `Rows` rows.
template <u32 Rows>
struct GroupTile {
    u32 address;
    static constexpr u32 PART = Rows * 128;

    template <class T>
    FASCICLE_DEVICE explicit GroupTile(const T* tile) : address(shared_address(tile)) {}

    // The columns 16 k to 16 k + 15 of the rows from `row` on, a multiple of 8: the k of a product.
    FASCICLE_DEVICE u64 columns(u32 row, u32 k) const {
        return tile_descriptor(address + row * 128 + k / 4 * PART + k % 4 * 32, PART);
    }

    // The rows 16 k to 16 k + 15, each with all columns: the k of a product as well.
    FASCICLE_DEVICE u64 rows(u32 k) const { return tile_descriptor(address + k * 16 * 128, PART); }
};

// Between any other use of a sum or a left operand in registers and the products that use them.
FASCICLE_DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products.
FASCICLE_DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all groups of products but the latest `Pending` are complete.
template <int Pending>
FASCICLE_DEVICE void await_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory"); }

// Keeps the compiler from moving other uses of sums across the products between.
template <int N>
FASCICLE_DEVICE void hold(Sum (&sum)[N]) {
    FASCICLE_UNROLL
    for (int i = 0; i < N * HELD; i++) asm volatile("" : "+f"(sum[i / HELD].at[i % HELD])::"memory");
}

template <class T, int N>
FASCICLE_DEVICE void hold(Operand<T> (&operand)[N]) {
    FASCICLE_UNROLL
    for (int i = 0; i < N * 4; i++) asm volatile("" : "+r"(words(operand[i / 4])[i % 4])::"memory");
}

// Keeps the assembler from moving what computes `value`, which is not negative, behind the wait that follows.
FASCICLE_DEVICE void stay_before_wait(float value) {
    asm volatile("{.reg .pred p; setp.lt.f32 p, %0, 0f00000000; @p trap;}" ::"f"(value) : "memory");
}

template <class T, int Columns> struct GroupUnit;

#define FASCICLE_SUM_OF(s) \
    "+f"(s.at[0]), "+f"(s.at[1]), "+f"(s.at[2]), "+f"(s.at[3]), "+f"(s.at[4]), "+f"(s.at[5]), "+f"(s.at[6]), "+f"(s.at[7])
#define FASCICLE_SUMS_64(s) FASCICLE_SUM_OF(s[0]), FASCICLE_SUM_OF(s[1]), FASCICLE_SUM_OF(s[2]), FASCICLE_SUM_OF(s[3])
#define FASCICLE_SUMS_128(s) \
    FASCICLE_SUMS_64(s), FASCICLE_SUM_OF(s[4]), FASCICLE_SUM_OF(s[5]), FASCICLE_SUM_OF(s[6]), FASCICLE_SUM_OF(s[7])
#define FASCICLE_LIST_64                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "              \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FASCICLE_LIST_128                                                                 \
    FASCICLE_LIST_64 ", "                                                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "    \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// Columns of the sum from sixteen k. `add`: left and right operand with their k along rows; `adds` is 0 where the sum starts.
// `add_rows`: the left one in registers, the right one with its k down the rows.
#define FASCICLE_GROUP_UNIT(T, name, columns, a, b, c, d, e, f)                                                              \
    template <> struct GroupUnit<T, columns> {                                                                             \
        static FASCICLE_DEVICE void add(Sum (&s)[columns / 16], u64 left, u64 right, u32 adds) {                           \
            asm volatile("{.reg .pred p; setp.ne.b32 p, " c ", 0; wgmma.mma_async.sync.aligned.m64n" #columns              \
                         "k16.f32." name "." name " {" FASCICLE_LIST_##columns "}, " a ", " b ", p, 1, 1, 0, 0;}"          \
                         : FASCICLE_SUMS_##columns(s) : "l"(left), "l"(right), "r"(adds));                                 \
        }                                                                                                                  \
        static FASCICLE_DEVICE void add_rows(Sum (&s)[columns / 16], const u32 (&left)[4], u64 right) {                     \
            asm volatile("{.reg .pred p; setp.ne.b32 p, " f ", 0; wgmma.mma_async.sync.aligned.m64n" #columns              \
                         "k16.f32." name "." name " {" FASCICLE_LIST_##columns "}, {" a ", " b ", " c ", " d "}, " e        \
                         ", p, 1, 1, 1;}"                                                                                  \
                         : FASCICLE_SUMS_##columns(s)                                                                      \
                         : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "n"(1));                    \
        }                                                                                                                  \
    };
FASCICLE_GROUP_UNIT(bf16, "bf16", 64, "%32", "%33", "%34", "%35", "%36", "%37")
FASCICLE_GROUP_UNIT(f16, "f16", 64, "%32", "%33", "%34", "%35", "%36", "%37")
FASCICLE_GROUP_UNIT(bf16, "bf16", 128, "%64", "%65", "%66", "%67", "%68", "%69")
FASCICLE_GROUP_UNIT(f16, "f16", 128, "%64", "%65", "%66", "%67", "%68", "%69")

// Starts sum[i][j] = the sum over the D columns c of left[row + i][c] * right[j][c], for the 64 rows of a group.
template <class T, int D, int Columns, u32 LeftRows>
FASCICLE_DEVICE void start_scores(Sum (&sum)[Columns / 16], GroupTile<LeftRows> left, u32 row, GroupTile<Columns> right) {
    FASCICLE_UNROLL
    for (u32 k = 0; k < D / 16; k++) {
        GroupUnit<T, Columns>::add(sum, left.columns(row, k), right.columns(0, k), k != 0);
    }
    commit_products();
}

// Starts to add to sum[i][j] the sum over the rows k of left[i][k] * right[k][j], for the D columns of the right tile.
template <class T, int D, int Rows>
FASCICLE_DEVICE void start_sums(Sum (&sum)[D / 16], Operand<T> (&left)[Rows / 16], GroupTile<Rows> right) {
    FASCICLE_UNROLL
    for (u32 k = 0; k < Rows / 16; k++) GroupUnit<T, D>::add_rows(sum, words(left[k]), right.rows(k));
    commit_products();
}

// Starts to copy 4 bytes into shared memory; where `exists` is false they become 0.
FASCICLE_DEVICE void copy_word_async(void* to, const void* from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 ::"r"(shared_address(to)), "l"(from), "r"(exists ? 4 : 0) : "memory");
}

FASCICLE_DEVICE void init_barrier(u32 at, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

FASCICLE_DEVICE void arrive(u32 at) {
    asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(at) : "memory");
}

// Waits for the end of a phase with this parity: returns at once if the barrier is in the next one.
FASCICLE_DEVICE void await_phase(u32 at, u32 parity) {
    u32 done = 0;
    while (done == 0) {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(at), "r"(parity) : "memory");
    }
}

// The named barrier `index`, for two warpgroups: one waits, the other only arrives.
FASCICLE_DEVICE void await_group(u32 index) {
    asm volatile("bar.sync %0, %1;" ::"r"(index), "n"(2 * GROUP_THREADS) : "memory");
}
FASCICLE_DEVICE void meet_group(u32 index) {
    asm volatile("bar.arrive %0, %1;" ::"r"(index), "n"(2 * GROUP_THREADS) : "memory");
}

// Waits until the copies of all groups but the latest `Pending` have arrived, and makes them visible to products.
template <int Pending>
FASCICLE_DEVICE void publish_copies() {
    await_copies<Pending>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace fascicle
