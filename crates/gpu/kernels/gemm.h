// C = alpha * op(A) op(B) + beta * C, whose sums over k have the order of hal::sums, on any device and for all sizes.
//
// A block computes tiles of C. It passes through the terms leaf by leaf, and a leaf in steps of 16 terms from its first one on,
// the last of which may be shorter. So a term's place within its step, and the step's within its leaf, are the same in every
// node that holds the leaf. Multipliers (gemm_plain.h, gemm_units.h) add a step to the sums that a thread holds; leaves are
// joined here. Nothing else enters an element's sum, so neither sizes nor layouts nor the batch change its bits.
//
// "Lines" are the rows of op(A) and the columns of op(B). A factor is stored with either its terms or its lines side by side.
#pragma once

#include "pack.h"

namespace fascicle {

constexpr u32 GEMM_THREADS = 256;
// Rows and columns of C in a tile.
constexpr u32 GEMM_TILE = 64;
// Elements of a tile that a thread holds.
constexpr int GEMM_HELD = GEMM_TILE * GEMM_TILE / GEMM_THREADS;
constexpr u32 STEP_TERMS = 16;
// Terms that are in shared memory at a time: 128 bytes of each line.
template <class T> constexpr u32 STAGE_TERMS = 128 / sizeof(T);
// Levels of the tree whose nodes wait in registers. Those of higher ones wait in memory, which is needed once in 8 leaves, or
// once in 2 for f64.
template <class A> constexpr u32 GEMM_LEVELS = sizeof(A) == 8 ? 1 : 3;

struct GemmParams {
    const void* a;
    const void* b;
    void* c;
    void* waiting;  // for each block, `waiting_levels` tiles of nodes
    double alpha;
    double beta;  // 0 does not read C
    u64 tiles;
    u64 a_leading;
    u64 b_leading;
    u64 c_leading;
    u64 a_stride;
    u64 b_stride;
    u64 c_stride;
    u32 m;
    u32 n;
    u32 k;
    u32 leaf;
    u32 leaves;
    u32 steps_of_leaf;
    u32 inverse;  // 2^32 / steps_of_leaf, rounded up; 0 for 1
    u32 waiting_levels;
    u32 is_wide;  // whether C has the type of the sums
    u32 unused;
};

// The terms of step `step`, counted over all leaves: the first, and how many.
struct StepTerms { u32 first, count; };

FASCICLE_DEVICE StepTerms terms_of(const GemmParams& p, u32 step) {
    u32 leaf = p.inverse == 0 ? step : multiply_high(step, p.inverse);
    u32 place = (step - leaf * p.steps_of_leaf) * STEP_TERMS;
    u32 first = leaf * p.leaf + place;
    if (leaf >= p.leaves || first >= p.k) return {0, 0};
    u32 of_leaf = p.leaf - place, of_sum = p.k - first;
    u32 count = of_leaf < of_sum ? of_leaf : of_sum;
    return {first, count < STEP_TERMS ? count : STEP_TERMS};
}

// Two runs of 16 bytes that a thread fetches of a factor's stage: each is part of one line or of one term. What does not
// exist is 0.
template <class T, bool LinesAdjoin>
struct StageRuns {
    static constexpr int N = SIXTEEN_BYTES<T>;
    // Runs of a line, or of a term.
    static constexpr u32 ACROSS = (LinesAdjoin ? GEMM_TILE : STAGE_TERMS<T>) / N;
    Pack<T, N> at[2];

    // Line and slot (the place of a term in the stage) of the first element of run `i`.
    static FASCICLE_DEVICE u32 along(int i) { return (thread_x() + i * GEMM_THREADS) / ACROSS; }
    static FASCICLE_DEVICE u32 across() { return thread_x() % ACROSS * N; }
    static FASCICLE_DEVICE u32 line(int i) { return LinesAdjoin ? across() : along(i); }
    static FASCICLE_DEVICE u32 slot(int i) { return LinesAdjoin ? along(i) : across(); }

    // `from` is the factor's element of the tile's first line and term 0; `lines` of the tile exist.
    FASCICLE_DEVICE void fetch(const GemmParams& p, const T* from, u64 leading, u32 lines, u32 stage) {
        FASCICLE_UNROLL
        for (int i = 0; i < 2; i++) {
            StepTerms terms = terms_of(p, (stage * STAGE_TERMS<T> + slot(i)) / STEP_TERMS);
            u32 place = slot(i) % STEP_TERMS, term = terms.first + place;
            u32 lines_left = line(i) < lines ? lines - line(i) : 0;
            u32 terms_left = place < terms.count ? terms.count - place : 0;
            bool exists = lines_left > 0 && terms_left > 0;
            const T* at_run = LinesAdjoin ? from + term * leading + line(i) : from + line(i) * leading + term;
            at[i] = load<N>(at_run, !exists ? 0 : LinesAdjoin ? lines_left : terms_left);
        }
    }
};

// Nodes of a thread's elements that wait for their right neighbours.
template <class A>
struct WaitingSums {
    static constexpr u32 LEVELS = GEMM_LEVELS<A>;
    A at[LEVELS][GEMM_HELD] = {};
    A* memory;  // the thread's first number of level LEVELS

    FASCICLE_DEVICE A& stored(u32 level, int e) {
        return memory[((level - LEVELS) * GEMM_HELD + u32(e)) * GEMM_THREADS];
    }

    // Levels are template arguments, because an array whose index is not known when it is split is no register.
    template <u32 Level = 0>
    FASCICLE_DEVICE void join(u32 levels, A (&sums)[GEMM_HELD]) const {
        if (levels >> Level & 1) {
            FASCICLE_UNROLL
            for (int e = 0; e < GEMM_HELD; e++) sums[e] = at[Level][e] + sums[e];
        }
        if constexpr (Level + 1 < LEVELS) join<Level + 1>(levels, sums);
    }

    template <u32 Level = 0>
    FASCICLE_DEVICE void keep(u32 completed, const A (&sums)[GEMM_HELD]) {
        // Stored whether it changes or not: clang turns stores to one of several levels into one with a computed index.
        FASCICLE_UNROLL
        for (int e = 0; e < GEMM_HELD; e++) at[Level][e] = completed == Level ? sums[e] : at[Level][e];
        if constexpr (Level + 1 < LEVELS) keep<Level + 1>(completed, sums);
    }

    // Joins the sum of leaf `leaf` with all nodes that it completes. Unless it is the last, their node waits, and the sum of the
    // next leaf starts from 0.
    FASCICLE_DEVICE void push(u32 leaf, bool is_last, A (&sums)[GEMM_HELD]) {
        u32 levels = is_last ? leaf : leaf & ~(leaf + 1);
        join(levels, sums);
        for (u32 level = LEVELS; levels >> level != 0; level++) {
            if (!(levels >> level & 1)) continue;
            FASCICLE_UNROLL
            for (int e = 0; e < GEMM_HELD; e++) sums[e] = stored(level, e) + sums[e];
        }
        if (is_last) return;
        u32 completed = lowest_bit(~leaf);
        keep(completed, sums);
        if (completed >= LEVELS) {
            FASCICLE_UNROLL
            for (int e = 0; e < GEMM_HELD; e++) stored(completed, e) = sums[e];
        }
        FASCICLE_UNROLL
        for (int e = 0; e < GEMM_HELD; e++) sums[e] = 0;
    }
};

// Writes `Run` neighbouring elements of a row.
template <int Run, class C, class A>
FASCICLE_DEVICE void finish_run(const GemmParams& p, C* to, const A* sums, u32 left) {
    Pack<A, Run> result;
    FASCICLE_UNROLL
    for (int i = 0; i < Run; i++) result.at[i] = A(p.alpha) * sums[i];
    if (p.beta != 0) {
        auto old = load_as<A, Run>(static_cast<const C*>(to), left);
        FASCICLE_UNROLL
        for (int i = 0; i < Run; i++) result.at[i] = multiply_add(A(p.beta), old.at[i], result.at[i]);
    }
    store_as<Run>(to, result, left);
}

template <class Multiplier, class T, class A>
FASCICLE_DEVICE void finish(const GemmParams& p, u64 start, u32 rows, u32 columns, const A (&sums)[GEMM_HELD]) {
    constexpr int Run = Multiplier::RUN;
    FASCICLE_UNROLL
    for (int e = 0; e < GEMM_HELD; e += Run) {
        u32 row = Multiplier::row(e), column = Multiplier::column(e);
        if (row >= rows || column >= columns) continue;
        u64 at = start + row * p.c_leading + column;
        if (p.is_wide) {
            finish_run<Run>(p, static_cast<A*>(p.c) + at, sums + e, columns - column);
        } else {
            finish_run<Run>(p, static_cast<T*>(p.c) + at, sums + e, columns - column);
        }
    }
}

// The tile of C that begins at (row, column) of a matrix of the batch.
template <class Multiplier, class T, bool ALines, bool BLines>
FASCICLE_DEVICE void gemm_tile(const GemmParams& p, u64 batch, u32 row, u32 column) {
    using A = Acc<T>;
    constexpr u32 STEPS = STAGE_TERMS<T> / STEP_TERMS;
    T* shared = reinterpret_cast<T*>(shared_memory());
    auto a_stage = [&](u32 stage) { return shared + stage % 2 * 2 * Multiplier::STAGE_ELEMENTS; };
    auto b_stage = [&](u32 stage) { return a_stage(stage) + Multiplier::STAGE_ELEMENTS; };
    u32 rows = p.m - row < GEMM_TILE ? p.m - row : GEMM_TILE, columns = p.n - column < GEMM_TILE ? p.n - column : GEMM_TILE;
    const T* a = static_cast<const T*>(p.a) + batch * p.a_stride + row * (ALines ? 1 : p.a_leading);
    const T* b = static_cast<const T*>(p.b) + batch * p.b_stride + column * (BLines ? 1 : p.b_leading);
    StageRuns<T, ALines> a_runs;
    StageRuns<T, BLines> b_runs;
    auto fetch = [&](u32 stage) {
        a_runs.fetch(p, a, p.a_leading, rows, stage);
        b_runs.fetch(p, b, p.b_leading, columns, stage);
    };
    auto deliver = [&](u32 stage) {
        Multiplier::deliver(a_stage(stage), a_runs);
        Multiplier::deliver(b_stage(stage), b_runs);
    };
    WaitingSums<A> waiting;
    waiting.memory = static_cast<A*>(p.waiting) +
                     u64(block_x()) * p.waiting_levels * GEMM_HELD * GEMM_THREADS + thread_x();
    A sums[GEMM_HELD] = {};
    u32 steps = p.leaves * p.steps_of_leaf, stages = (steps + STEPS - 1) / STEPS, leaf = 0, step_of_leaf = 0;
    fetch(0);
    deliver(0);
    FASCICLE_ROLLED
    for (u32 stage = 0; stage < stages; stage++) {
        if (stage + 1 < stages) fetch(stage + 1);
        // Every thread has delivered this stage, and none works on the one before it.
        barrier();
        FASCICLE_ROLLED
        for (u32 step = 0; step < STEPS && leaf < p.leaves;) {
            // The leaf's steps in this stage: a loop of its own, without what ends a leaf.
            u32 of_leaf = p.steps_of_leaf - step_of_leaf, of_stage = STEPS - step;
            u32 number = of_leaf < of_stage ? of_leaf : of_stage;
            step_of_leaf += number;
            if (Multiplier::is_inside(rows, columns)) {
                FASCICLE_ROLLED
                for (u32 end = step + number; step < end; step++) {
                    Multiplier::add(sums, a_stage(stage), b_stage(stage), step, terms_of(p, stage * STEPS + step).count);
                }
            } else {
                step += number;
            }
            if (step_of_leaf == p.steps_of_leaf) {
                waiting.push(leaf, leaf + 1 == p.leaves, sums);
                leaf++;
                step_of_leaf = 0;
            }
        }
        if (stage + 1 < stages) deliver(stage + 1);
    }
    finish<Multiplier, T>(p, batch * p.c_stride + row * p.c_leading + column, rows, columns, sums);
    barrier();
}

template <class Multiplier, class T, bool ALines, bool BLines>
FASCICLE_DEVICE void gemm(const GemmParams& p) {
    u64 down = (p.m + GEMM_TILE - 1) / GEMM_TILE, across = (p.n + GEMM_TILE - 1) / GEMM_TILE;
    for (u64 tile = block_x(); tile < p.tiles; tile += grid_size_x()) {
        u64 batch = tile / (down * across), place = tile % (down * across);
        gemm_tile<Multiplier, T, ALines, BLines>(p, batch, u32(place / across) * GEMM_TILE, u32(place % across) * GEMM_TILE);
    }
}

}  // namespace fascicle

// One kernel for each way in which factors are stored: n as written, t transposed.
#define FASCICLE_GEMM(Multiplier, suffix, T)                    \
    FASCICLE_GEMM_OF(Multiplier, nn, suffix, T, false, true)    \
    FASCICLE_GEMM_OF(Multiplier, nt, suffix, T, false, false)   \
    FASCICLE_GEMM_OF(Multiplier, tn, suffix, T, true, true)     \
    FASCICLE_GEMM_OF(Multiplier, tt, suffix, T, true, false)
#define FASCICLE_GEMM_OF(Multiplier, stored, suffix, T, a_lines, b_lines)                                              \
    FASCICLE_COOPERATIVE(fascicle_gemm_##stored##_##suffix, fascicle::GemmParams, fascicle::GEMM_THREADS) {            \
        fascicle::gemm<fascicle::Multiplier<T, a_lines, b_lines>, T, a_lines, b_lines>(p);                             \
    }
