// What quantised weights stand for; see hal::quantised.
#pragma once

#include "loops.h"

namespace fascicle {

// Elements of a row that share a scale.
constexpr u64 QUANTISED_BLOCK = 64;
// Shares of 4-bit codes.
constexpr u32 NORMAL_SHARES = 16;

// The share of an integer of 8 bits. The lowest stands for the same as its neighbour.
FASCICLE_DEVICE float share_of_integer(u8 code, float step) {
    int integer = code < 128 ? int(code) : int(code) - 256;
    return float(integer < -127 ? -127 : integer) * step;
}

// One of the 4-bit codes in bytes that begin with a code.
FASCICLE_DEVICE u32 code_in_pairs(const u8* pairs, int i) { return pairs[i / 2] >> (i % 2 * 4) & 15; }

// Copies the shares of 4-bit codes to where they are in different banks. All threads take part.
FASCICLE_DEVICE void share_shares(const float (&shares)[NORMAL_SHARES], float* shared) {
    if (thread_x() < NORMAL_SHARES) shared[thread_x()] = shares[thread_x()];
    barrier();
}

struct DequantiseParams {
    const void* scales;  // f32, row by row
    const void* codes;
    void* out;
    u64 len;
    u64 columns;  // of this rank's part of the matrix
    u64 first_column;
    u64 blocks;  // that a row of the part touches
    float step;  // of the shares of integers
    float shares[NORMAL_SHARES];
    u32 unused;
};

// Calls `share(i)` for each element of packs that share a scale where rows and packs allow it.
template <int N, class T, class Shares>
FASCICLE_DEVICE void scaled(const DequantiseParams& p, u64 start, u64 left, Shares shares) {
    const float* scales = static_cast<const float*>(p.scales);
    u64 row = start / p.columns, column = start % p.columns, of_row = p.first_column / QUANTISED_BLOCK;
    auto scale = [&] { return scales[row * p.blocks + (p.first_column + column) / QUANTISED_BLOCK - of_row]; };
    Pack<float, N> numbers;
    if (column + N <= p.columns && (p.first_column + column) % QUANTISED_BLOCK + N <= QUANTISED_BLOCK) {
        float one = scale();
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) numbers.at[i] = shares(i) * one;
    } else {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            numbers.at[i] = u64(i) < left ? shares(i) * scale() : 0.0f;
            if (++column == p.columns) column = 0, row++;
        }
    }
    store_as<N>(static_cast<T*>(p.out) + start, numbers, left);
}

template <class T>
FASCICLE_DEVICE void dequantise_int8(const DequantiseParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        auto codes = load<N>(static_cast<const u8*>(p.codes) + start, left);
        scaled<N, T>(p, start, left, [&](int i) { return share_of_integer(codes.at[i], p.step); });
    });
}

template <class T>
FASCICLE_DEVICE void dequantise_nf4(const DequantiseParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    float* shares = reinterpret_cast<float*>(shared_memory());
    share_shares(p.shares, shares);
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        auto codes = load<N / 2>(static_cast<const u8*>(p.codes) + start / 2, (left + 1) / 2);
        scaled<N, T>(p, start, left, [&](int i) { return shares[code_in_pairs(codes.at, i)]; });
    });
}

}  // namespace fascicle

#define FASCICLE_DEQUANTISE(suffix, T)                                                         \
    FASCICLE_INDEPENDENT(fascicle_dequantise_int8_##suffix, fascicle::DequantiseParams, 256) { \
        fascicle::dequantise_int8<T>(p);                                                       \
    }                                                                                          \
    FASCICLE_COOPERATIVE(fascicle_dequantise_nf4_##suffix, fascicle::DequantiseParams, 256) {  \
        fascicle::dequantise_nf4<T>(p);                                                        \
    }
FASCICLE_FLOATS(FASCICLE_DEQUANTISE)
