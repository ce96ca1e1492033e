// Products of few rows and a matrix that is stored as codes; see hal::quantised.
#pragma once

#include "quantised.h"
#include "reduce.h"

namespace fascicle {

struct QuantisedMatmulParams {
    const void* scales;  // f32, row by row
    const void* codes;
    const void* a;
    void* out;
    u64 terms;    // rows of this rank's part of the matrix
    u64 columns;  // of it
    u64 first_column;
    u64 blocks;  // that a row of the part touches
    u32 rows;    // of a and out
    u32 wide;    // whether out has accumulators
    float step;  // of the shares of integers
    float shares[NORMAL_SHARES];
    u32 unused;
};

// Neighbouring threads of a row of codes: they read 32 bytes, which memory delivers at once. `lower/quantised_matmul.rs` knows it too.
constexpr u32 CODE_LANES = 8;

// Four integers.
struct Integers {
    static constexpr int CODES = 4;
    float step;
    FASCICLE_DEVICE Integers(const QuantisedMatmulParams& p, float*) : step(p.step) {}

    // The codes from an element on, of which `count` exist.
    static FASCICLE_DEVICE Pack<u8, 4> read(const u8* codes, u64 element, u64 count) {
        Pack<u8, 4> pack{};
        FASCICLE_UNROLL
        for (u32 i = 0; i < CODES; i++) {
            if (i < count) pack.at[i] = codes[element + i];
        }
        return pack;
    }
    FASCICLE_DEVICE float share(const Pack<u8, 4>& codes, int i) const { return share_of_integer(codes.at[i], step); }
};

// Eight 4-bit codes.
struct Normals {
    static constexpr int CODES = 8;
    const float* shares;
    FASCICLE_DEVICE Normals(const QuantisedMatmulParams& p, float* own) : shares(own) { share_shares(p.shares, own); }

    static FASCICLE_DEVICE Pack<u8, 4> read(const u8* codes, u64 element, u64 count) {
        // In rows of odd length the codes of a byte may belong to two packs.
        Pack<u8, 4> pack{};
        FASCICLE_UNROLL
        for (u32 i = 0; i < CODES; i++) {
            u64 at = element + i;
            if (i < count) pack.at[i / 2] |= (codes[at / 2] >> (at % 2 * 4) & 15) << (i % 2 * 4);
        }
        return pack;
    }
    FASCICLE_DEVICE float share(const Pack<u8, 4>& codes, int i) const { return shares[code_in_pairs(codes.at, i)]; }
};

// M rows of the product, which blocks in y have in turn. Threads that read the same columns have terms in turn; R of a thread's terms are on their way at once.
template <int M, int R, class T, class Format>
FASCICLE_DEVICE void quantised_matmul(const QuantisedMatmulParams& p) {
    using A = Acc<T>;
    constexpr int N = Format::CODES;
    constexpr u32 WIDTH = CODE_LANES * N;
    A* of_warps = reinterpret_cast<A*>(shared_memory());
    Format format(p, reinterpret_cast<float*>(of_warps + block_size_x() / WARP * WIDTH));
    const u8* codes = static_cast<const u8*>(p.codes);
    const float* scales = static_cast<const float*>(p.scales);
    u32 first_row = block_y() * M, rows = p.rows - first_row;
    const T* a = static_cast<const T*>(p.a) + u64(first_row) * p.terms;
    u32 lane = thread_x() % CODE_LANES;
    u64 first = u64(block_x()) * WIDTH, column = first + lane * N;
    u64 count = column < p.columns ? p.columns - column : 0;
    u64 ways = block_size_x() / CODE_LANES;
    auto scale_of = [&](u64 term, u64 column) {
        return scales[term * p.blocks + (p.first_column + column) / QUANTISED_BLOCK - p.first_column / QUANTISED_BLOCK];
    };
    A sums[M][N] = {};
    auto add = [&](auto number, auto whole, u64 term) {
        constexpr int terms = decltype(number)::value;
        Pack<u8, 4> read[terms];
        float scale[terms];
        A left[terms][M];
        FASCICLE_UNROLL
        for (int r = 0; r < terms; r++) {
            u64 at = term + r * ways, element = at * p.columns + column;
            if constexpr (decltype(whole)::value) {
                copy_whole<u8, 4>(read[r].at, codes + element * 4 / N);
            } else {
                read[r] = Format::read(codes, element, count);
            }
            scale[r] = scale_of(at, column);
            FASCICLE_UNROLL
            for (u32 m = 0; m < M; m++) left[r][m] = m < rows ? A(widen(a[m * p.terms + at])) : A(0);
        }
        FASCICLE_UNROLL
        for (int r = 0; r < terms; r++) {
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                float one = scale[r];
                if (!decltype(whole)::value && u64(i) < count) one = scale_of(term + r * ways, column + i);
                A weight = A(widen(narrow<T>(format.share(read[r], i) * one)));
                FASCICLE_UNROLL
                for (int m = 0; m < M; m++) sums[m][i] += left[r][m] * weight;
            }
        }
    };
    u64 term = thread_x() / CODE_LANES;
    if (p.columns % N == 0 && p.first_column % N == 0) {
        u64 end = count > 0 ? p.terms : 0;
        for (; term + (R - 1) * ways < end; term += R * ways) add(Count<R>{}, Count<1>{}, term);
        for (; term < end; term += ways) add(Count<1>{}, Count<1>{}, term);
    } else if (count > 0) {
        for (; term < p.terms; term += ways) add(Count<1>{}, Count<0>{}, term);
    }
    // The sums of a warp's terms, and then those of the warps.
    FASCICLE_UNROLL
    for (int m = 0; m < M; m++) {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A sum = sums[m][i];
            FASCICLE_UNROLL
            for (u32 mask = CODE_LANES; mask < WARP; mask *= 2) sum += exchange(sum, mask);
            if (lane_index() < CODE_LANES) of_warps[warp_index() * WIDTH + lane * N + i] = sum;
        }
        barrier();
        if (thread_x() < WIDTH && first + thread_x() < p.columns && u32(m) < rows) {
            A sum = 0;
            for (u32 warp = 0; warp < block_size_x() / WARP; warp++) sum += of_warps[warp * WIDTH + thread_x()];
            u64 at = (first_row + m) * p.columns + first + thread_x();
            if (p.wide != 0) {
                static_cast<A*>(p.out)[at] = sum;
            } else {
                static_cast<T*>(p.out)[at] = narrow<T>(sum);
            }
        }
        barrier();
    }
}

}  // namespace fascicle

#define FASCICLE_QUANTISED_MATMUL_OF(rows, terms, suffix, T)                                                            \
    FASCICLE_COOPERATIVE(fascicle_quantised_matmul_int8_##rows##_##suffix, fascicle::QuantisedMatmulParams, 256) {      \
        fascicle::quantised_matmul<rows, terms, T, fascicle::Integers>(p);                                              \
    }                                                                                                                   \
    FASCICLE_COOPERATIVE(fascicle_quantised_matmul_nf4_##rows##_##suffix, fascicle::QuantisedMatmulParams, 256) {       \
        fascicle::quantised_matmul<rows, terms, T, fascicle::Normals>(p);                                               \
    }
#define FASCICLE_QUANTISED_MATMUL(suffix, T)        \
    FASCICLE_QUANTISED_MATMUL_OF(1, 8, suffix, T)   \
    FASCICLE_QUANTISED_MATMUL_OF(4, 4, suffix, T)
FASCICLE_FLOATS(FASCICLE_QUANTISED_MATMUL)
