// Fill, cast, scaled sum, the four operations.
#pragma once

#include "loops.h"

namespace fascicle {

struct FillParams {
    void* out;
    u64 len;
    u64 bits;  // of one element, in its own width
};

struct CastParams {
    const void* x;
    void* out;
    u64 len;
};

struct AxpbyParams {
    const void* x;
    void* y;
    u64 len;
    double alpha;
    double beta;
};

struct BinaryParams {
    const void* a;
    const void* b;
    void* out;
    u64 len;
    u64 period;  // elements of b, which is repeated; it divides len
    u32 op;      // 0 add, 1 subtract, 2 multiply, 3 divide
    u32 unused;
};

template <class T>
FASCICLE_DEVICE void fill(const FillParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    Pack<T, N> pack;
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) pack.at[i] = T(p.bits);
    each_pack<N>(p.len, [&](u64 start, u64 left) { store<N>(static_cast<T*>(p.out) + start, pack, left); });
}

// Packs of 16 bytes of the wider type: with more of them, neighbouring threads read places that are not neighbours.
template <class X, class Y>
FASCICLE_DEVICE void cast(const CastParams& p) {
    constexpr int N = smaller(SIXTEEN_BYTES<X>, SIXTEEN_BYTES<Y>);
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        store_as<N>(static_cast<Y*>(p.out) + start, load_as<Acc<X>, N>(static_cast<const X*>(p.x) + start, left), left);
    });
}

template <class X, class Y>
FASCICLE_DEVICE void axpby(const AxpbyParams& p) {
    using A = Acc<Y>;
    constexpr int N = SIXTEEN_BYTES<X> < SIXTEEN_BYTES<Y> ? SIXTEEN_BYTES<Y> : SIXTEEN_BYTES<X>;
    A alpha = A(p.alpha), beta = A(p.beta);
    bool reads = p.beta != 0;
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        Y* at = static_cast<Y*>(p.y) + start;
        auto sum = load_as<A, N>(static_cast<const X*>(p.x) + start, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) sum.at[i] *= alpha;
        if (reads) {
            auto y = load_as<A, N>(static_cast<const Y*>(at), left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) sum.at[i] += beta * y.at[i];
        }
        store_as<N>(at, sum, left);
    });
}

template <class A>
FASCICLE_DEVICE A operate(u32 op, A a, A b) {
    return op == 0 ? a + b : op == 1 ? a - b : op == 2 ? a * b : a / b;
}

// N elements of `x`, which is repeated with this period, from element `start` of the repetition on; `left` of them count.
template <class A, int N, class T>
FASCICLE_DEVICE Pack<A, N> load_repeated(const T* x, u64 period, u64 start, u64 left) {
    u64 at = start % period;
    u64 count = left < u64(N) ? left : u64(N);
    if (period - at >= count) return load_as<A, N>(x + at, count);
    Pack<A, N> pack;
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        pack.at[i] = A(widen(x[at]));
        at = at + 1 == period ? 0 : at + 1;
    }
    return pack;
}

template <class T>
FASCICLE_DEVICE void binary(const BinaryParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    bool repeats = p.period != p.len;
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        const T* from = static_cast<const T*>(p.b);
        auto a = load_as<Acc<T>, N>(static_cast<const T*>(p.a) + start, left);
        auto b = repeats ? load_repeated<Acc<T>, N>(from, p.period, start, left) : load_as<Acc<T>, N>(from + start, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) a.at[i] = operate(p.op, a.at[i], b.at[i]);
        store_as<N>(static_cast<T*>(p.out) + start, a, left);
    });
}

}  // namespace fascicle

#define FASCICLE_FILL(bytes, T) \
    FASCICLE_INDEPENDENT(fascicle_fill_##bytes, fascicle::FillParams, 256) { fascicle::fill<T>(p); }
FASCICLE_FILL(8, fascicle::u64)
FASCICLE_FILL(4, fascicle::u32)
FASCICLE_FILL(2, fascicle::u16)
FASCICLE_FILL(1, fascicle::u8)

#define FASCICLE_CAST(x, X, y, Y) \
    FASCICLE_INDEPENDENT(fascicle_cast_##x##_##y, fascicle::CastParams, 256) { fascicle::cast<X, Y>(p); } \
    FASCICLE_INDEPENDENT(fascicle_axpby_##x##_##y, fascicle::AxpbyParams, 256) { fascicle::axpby<X, Y>(p); }
#define FASCICLE_CAST_FROM(x, X)              \
    FASCICLE_CAST(x, X, f64, double)          \
    FASCICLE_CAST(x, X, f32, float)           \
    FASCICLE_CAST(x, X, bf16, fascicle::bf16) \
    FASCICLE_CAST(x, X, f16, fascicle::f16)
FASCICLE_FLOATS(FASCICLE_CAST_FROM)

#define FASCICLE_BINARY(suffix, T) \
    FASCICLE_INDEPENDENT(fascicle_binary_##suffix, fascicle::BinaryParams, 256) { fascicle::binary<T>(p); }
FASCICLE_FLOATS(FASCICLE_BINARY)
