// GEMMs without matrix units: f32 and f64. A leaf is one chain of fused multiply-adds in the order of its terms.
#pragma once

#include "gemm.h"

namespace fascicle {

// A thread holds 4 x 4 elements. Stages have lines side by side, however the factors are stored.
template <class T, bool ALines, bool BLines>
struct PlainMultiplier {
    static constexpr int N = SIXTEEN_BYTES<T>;
    static constexpr u32 PITCH = GEMM_TILE + N;
    static constexpr u32 STAGE_ELEMENTS = STAGE_TERMS<T> * PITCH;
    static constexpr int RUN = 4;

    static FASCICLE_DEVICE u32 row(int e) { return thread_x() / 16 * 4 + u32(e / 4); }
    static FASCICLE_DEVICE u32 column(int e) { return thread_x() % 16 * 4 + u32(e % 4); }

    static FASCICLE_DEVICE void deliver(T* stage, const StageRuns<T, true>& runs) {
        FASCICLE_UNROLL
        for (int i = 0; i < 2; i++) copy_whole<T, N>(stage + runs.slot(i) * PITCH + runs.line(i), runs.at[i].at);
    }
    static FASCICLE_DEVICE void deliver(T* stage, const StageRuns<T, false>& runs) {
        FASCICLE_UNROLL
        for (int i = 0; i < 2; i++) {
            FASCICLE_UNROLL
            for (int e = 0; e < N; e++) stage[(runs.slot(i) + e) * PITCH + runs.line(i)] = runs.at[i].at[e];
        }
    }

    static FASCICLE_DEVICE bool is_inside(u32 rows, u32 columns) { return row(0) < rows && column(0) < columns; }

    static FASCICLE_DEVICE void add_term(T (&sums)[GEMM_HELD], const T* a, const T* b) {
        Pack<T, 4> left, right;
        copy_whole<T, 4>(left.at, a);
        copy_whole<T, 4>(right.at, b);
        FASCICLE_UNROLL
        for (int e = 0; e < GEMM_HELD; e++) sums[e] = multiply_add(left.at[e / 4], right.at[e % 4], sums[e]);
    }

    static FASCICLE_DEVICE void add(T (&sums)[GEMM_HELD], const T* a, const T* b, u32 step, u32 count) {
        a += step * STEP_TERMS * PITCH + row(0);
        b += step * STEP_TERMS * PITCH + column(0);
        if (count == STEP_TERMS) {
            FASCICLE_UNROLL
            for (u32 term = 0; term < STEP_TERMS; term++) add_term(sums, a + term * PITCH, b + term * PITCH);
        } else {
            FASCICLE_ROLLED
            for (u32 term = 0; term < count; term++) add_term(sums, a + term * PITCH, b + term * PITCH);
        }
    }
};

}  // namespace fascicle

FASCICLE_GEMM(PlainMultiplier, f64, double)
FASCICLE_GEMM(PlainMultiplier, f32, float)
