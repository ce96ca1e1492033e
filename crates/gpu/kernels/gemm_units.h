// GEMMs on matrix units: bf16 and f16, with sums in f32. A step of a leaf is one multiplication of 16 terms; terms that a short
// step lacks are 0. How a unit adds its 16 products is the device's own, and depends on their places alone.
#pragma once

#include "gemm.h"
#include "tile.h"

namespace fascicle {

// A warp holds 16 x 32 elements, or 32 x 32 if it has 64 lanes. Stages are stored as the factors are, in tiles of 64 x 64.
template <class T, bool ALines, bool BLines>
struct UnitMultiplier {
    static constexpr int D = GEMM_TILE;
    static constexpr u32 STAGE_ELEMENTS = GEMM_TILE * GEMM_TILE;
    static_assert(STAGE_TERMS<T> == GEMM_TILE, "stages are square");
    // Neighbours in a row that a lane holds.
    static constexpr int RUN = WARP == 32 ? 2 : 4;
    static constexpr u32 TALL = WARP == 32 ? 1 : 2;

    static FASCICLE_DEVICE u32 warp_row() { return warp_index() / 2 * 16 * TALL; }
    static FASCICLE_DEVICE u32 warp_column() { return warp_index() % 2 * 32; }
    // The sums are those of one tile of the warp after another, along its rows.
    static FASCICLE_DEVICE u32 row(int e) { return warp_row() + u32(e / HELD / 2) * 16 + row_held(e % HELD); }
    static FASCICLE_DEVICE u32 column(int e) { return warp_column() + u32(e / HELD % 2) * 16 + column_held(e % HELD); }

    template <bool LinesAdjoin>
    static FASCICLE_DEVICE void deliver(T* stage, const StageRuns<T, LinesAdjoin>& runs) {
        FASCICLE_UNROLL
        for (int i = 0; i < 2; i++) {
            u32 column = runs.across();
            copy_whole<T, 8>(stage + swizzled<D>(runs.along(i), column % 16, column / 16 * 16), runs.at[i].at);
        }
    }

    // The same for all lanes of a warp.
    static FASCICLE_DEVICE bool is_inside(u32 rows, u32 columns) { return warp_row() < rows && warp_column() < columns; }

    static FASCICLE_DEVICE void add(float (&sums)[GEMM_HELD], const T* a, const T* b, u32 step, u32) {
        u32 slot = step * STEP_TERMS;
        Operand<T> right[2];
        FASCICLE_UNROLL
        for (u32 j = 0; j < 2; j++) {
            u32 line = warp_column() + 16 * j;
            right[j] = BLines ? load_right_transposed<D>(b, slot, line) : load_right<D>(b, line, slot);
        }
        FASCICLE_UNROLL
        for (u32 i = 0; i < TALL; i++) {
            u32 line = warp_row() + 16 * i;
            Operand<T> left = ALines ? load_left_transposed<D>(a, slot, line) : load_left_shared<D>(a, line, slot);
            FASCICLE_UNROLL
            for (u32 j = 0; j < 2; j++) {
                Sum sum;
                FASCICLE_UNROLL
                for (int e = 0; e < HELD; e++) sum.at[e] = sums[(2 * i + j) * HELD + e];
                multiply(sum, left, right[j]);
                FASCICLE_UNROLL
                for (int e = 0; e < HELD; e++) sums[(2 * i + j) * HELD + e] = sum.at[e];
            }
        }
    }
};

}  // namespace fascicle

FASCICLE_GEMM(UnitMultiplier, bf16, fascicle::bf16)
FASCICLE_GEMM(UnitMultiplier, f16, fascicle::f16)
