// The counter-based generator that every vendor shares: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC11).
#pragma once

#include "portable.h"

namespace fascicle {

// Names a sequence of random numbers.
struct RandomKey {
    u64 seed;
    u64 sequence;
};

// The generator's keys of each round. They depend on the seed alone: a kernel that draws much gets them from the host.
constexpr int ROUNDS = 10;
struct RoundKeys { u32 low[ROUNDS], high[ROUNDS]; };

FASCICLE_DEVICE RoundKeys round_keys(u64 seed) {
    RoundKeys keys;
    FASCICLE_UNROLL
    for (int round = 0; round < ROUNDS; round++) {
        keys.low[round] = u32(seed) + u32(round) * 0x9E3779B9u;
        keys.high[round] = u32(seed >> 32) + u32(round) * 0xBB67AE85u;
    }
    return keys;
}

// The words of four indices: index i has word i % 4 of block i / 4.
struct RandomWords { u32 at[4]; };

FASCICLE_DEVICE RandomWords random_block(const RoundKeys& keys, u64 sequence, u64 block) {
    u32 a = u32(block), b = u32(block >> 32), c = u32(sequence), d = u32(sequence >> 32);
    FASCICLE_UNROLL
    for (int round = 0; round < ROUNDS; round++) {
        // One instruction for both halves of a product.
        u64 left = u64(a) * 0xD2511F53u, right = u64(c) * 0xCD9E8D57u;
        a = u32(right >> 32) ^ b ^ keys.low[round];
        b = u32(right);
        c = u32(left >> 32) ^ d ^ keys.high[round];
        d = u32(left);
    }
    return RandomWords{{a, b, c, d}};
}

FASCICLE_DEVICE RandomWords random_block(RandomKey key, u64 block) {
    return random_block(round_keys(key.seed), key.sequence, block);
}

// The word of an index within its block of four.
FASCICLE_DEVICE u32 word_of(const RandomWords& words, u32 index) {
    u32 low = index % 2 == 0 ? words.at[0] : words.at[1];
    u32 high = index % 2 == 0 ? words.at[2] : words.at[3];
    return index < 2 ? low : high;
}

// Sets `drops[i]` to whether the number of index `4 * block + i` lies below a probability. `threshold` is the probability
// times 2^24, rounded up, which is compared with the upper 24 bits of a word.
template <int N>
FASCICLE_DEVICE void draw_blocks(const RoundKeys& keys, u64 sequence, u64 block, u32 threshold, bool (&drops)[N]) {
    static_assert(N % 4 == 0, "whole blocks");
    FASCICLE_UNROLL
    for (int i = 0; i < N; i += 4) {
        RandomWords words = random_block(keys, sequence, block + u64(i / 4));
        FASCICLE_UNROLL
        for (int word = 0; word < 4; word++) drops[i + word] = (words.at[word] >> 8) < threshold;
    }
}

// The same for the numbers from index `first` on, which may begin within a block.
template <int N>
FASCICLE_DEVICE void draw(RandomKey key, u64 first, u32 threshold, bool (&drops)[N]) {
    RandomWords words = random_block(key, first / 4);
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        u64 index = first + u64(i);
        if (i > 0 && index % 4 == 0) words = random_block(key, index / 4);
        drops[i] = (word_of(words, u32(index % 4)) >> 8) < threshold;
    }
}

}  // namespace fascicle
