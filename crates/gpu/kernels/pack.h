// Runs of elements that move between memory and registers together, 16 bytes at a time where their address allows it.
#pragma once

#include "numbers.h"

namespace fascicle {

// N elements in registers.
template <class T, int N>
struct Pack { alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) T at[N]; };

// Elements of type T in 16 bytes.
template <class T> constexpr int SIXTEEN_BYTES = 16 / int(sizeof(T));

FASCICLE_DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }

#if defined(FASCICLE_CUDA)
template <int Bytes> struct WordOf { using Type = uint4; };
template <> struct WordOf<8> { using Type = uint2; };
template <> struct WordOf<4> { using Type = u32; };
template <> struct WordOf<2> { using Type = u16; };
#endif

// Copies the bytes of a pack by the widest accesses; both addresses are aligned to them.
template <class T, int N>
FASCICLE_DEVICE void copy_whole(T* to, const T* from) {
    constexpr int bytes = int(sizeof(T)) * N;
    constexpr int width = smaller(bytes, 16);
#if defined(FASCICLE_CUDA)
    using Word = typename WordOf<width>::Type;
    FASCICLE_UNROLL
    for (int i = 0; i < bytes / width; i++) {
        reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
    }
#elif defined(FASCICLE_HIP)
    // clang splits a pack into registers only if no code has accessed it as words.
    memcpy(__builtin_assume_aligned(to, width), __builtin_assume_aligned(from, width), bytes);
#else
    // No alignment is assumed: g++ would propagate the assumption back to the check before it, and remove the check.
    FASCICLE_ACCESS(to, width);
    FASCICLE_ACCESS(from, width);
    memcpy(to, from, bytes);
#endif
}

template <class T, int N>
FASCICLE_DEVICE bool is_aligned(const T* address) {
    return uintptr_t(address) % smaller(int(sizeof(T)) * N, 16) == 0;
}

// The first `count` elements at `from`, at most N; the others are 0.
template <int N, class T>
FASCICLE_DEVICE Pack<T, N> load(const T* from, u64 count) {
    Pack<T, N> pack;
    if (count >= N && is_aligned<T, N>(from)) {
        copy_whole<T, N>(pack.at, from);
        return pack;
    }
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        pack.at[i] = u64(i) < count ? from[i] : T{};
    }
    return pack;
}

// Writes the first `count` elements of a pack, at most N.
template <int N, class T>
FASCICLE_DEVICE void store(T* to, const Pack<T, N>& pack, u64 count) {
    if (count >= N && is_aligned<T, N>(to)) {
        copy_whole<T, N>(to, pack.at);
        return;
    }
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        if (u64(i) < count) to[i] = pack.at[i];
    }
}

// As `load`, for R packs that are `step` elements apart. All loads are issued before one is used.
template <int R, int N, class T>
FASCICLE_DEVICE void load_each(const T* from, u64 step, u64 count, Pack<T, N> (&packs)[R]) {
    if (count >= N && is_aligned<T, N>(from) && (R == 1 || is_aligned<T, N>(from + step))) {
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) copy_whole<T, N>(packs[r].at, from + r * step);
        return;
    }
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) packs[r] = load<N>(from + r * step, count);
}

// As `load_each`, of which the first `rows` packs exist; the others are 0.
template <int R, int N, class T>
FASCICLE_DEVICE void load_rows(const T* from, u64 step, u64 rows, u64 count, Pack<T, N> (&packs)[R]) {
    if (rows >= R) return load_each(from, step, count, packs);
    FASCICLE_UNROLL
    for (int r = 0; r < R; r++) packs[r] = load<N>(from + r * step, u64(r) < rows ? count : 0);
}

// Elements as accumulators.
template <class A, int N, class T>
FASCICLE_DEVICE Pack<A, N> widened(const Pack<T, N>& raw) {
    Pack<A, N> pack;
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) pack.at[i] = A(widen(raw.at[i]));
    return pack;
}

// As `load`, converted to the accumulator.
template <class A, int N, class T>
FASCICLE_DEVICE Pack<A, N> load_as(const T* from, u64 count) {
    return widened<A>(load<N>(from, count));
}

// Accumulators as elements, each rounded once.
template <class T, int N, class A>
FASCICLE_DEVICE Pack<T, N> narrowed(const Pack<A, N>& pack) {
    Pack<T, N> raw;
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) raw.at[i] = narrow<T>(pack.at[i]);
    return raw;
}

// As `store`, of accumulators.
template <int N, class T, class A>
FASCICLE_DEVICE void store_as(T* to, const Pack<A, N>& pack, u64 count) {
    store<N>(to, narrowed<T>(pack), count);
}

}  // namespace fascicle
