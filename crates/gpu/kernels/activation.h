// Activation functions, their derivatives, and SwiGLU.
#pragma once

#include "loops.h"

namespace fascicle {

struct UnaryParams {
    const void* x;
    void* out;
    u64 len;
    u32 op;  // 0 gelu, 1 silu, 2 relu, 3 tanh, 4 sigmoid, 5 exp, 6 log, 7 square root, 8 gelu by erf
    u32 unused;
};

struct UnaryBackwardParams {
    const void* x;
    const void* d_out;
    void* d_x;
    u64 len;
    u32 op;  // as in UnaryParams
    u32 unused;
};

struct SwigluParams {
    const void* gate;
    const void* up;
    void* out;
    u64 len;
};

struct SwigluBackwardParams {
    const void* gate;
    const void* up;
    const void* d_out;
    void* d_gate;
    void* d_up;
    u64 len;
};

// GELU by its tanh approximation, as x * sigmoid(2 u) with u = sqrt(2 / pi) (x + CUBIC x^3). For negative x this form
// keeps the digits that 1 + tanh u would cancel.
constexpr double CUBIC = 0.044715;
constexpr double TWICE_ROOT = 2.0 * 0.7978845608028654;

template <class A>
FASCICLE_DEVICE A gelu_gate(A x) { return sigmoid(A(TWICE_ROOT) * x * (A(1) + A(CUBIC) * x * x)); }

template <class A>
FASCICLE_DEVICE A gelu_slope(A x) {
    A s = gelu_gate(x);
    return s + x * s * (A(1) - s) * A(TWICE_ROOT) * (A(1) + A(3 * CUBIC) * x * x);
}

// The share of the normal distribution up to x, by which GELU is defined. For negative x, erfc keeps the digits that 1 + erf
// would cancel.
template <class A>
FASCICLE_DEVICE A normal_up_to(A x) { return A(0.5) * erfc_of(x * A(-0.7071067811865476)); }

template <class A>
FASCICLE_DEVICE A gelu_erf_slope(A x) {
    return normal_up_to(x) + x * A(0.3989422804014327) * exp_of(A(-0.5) * x * x);
}

template <class A>
FASCICLE_DEVICE A silu_slope(A x) {
    A s = sigmoid(x);
    return s * (A(1) + x * (A(1) - s));
}

template <u32 Op, class A>
FASCICLE_DEVICE A activate(A x) {
    if (Op == 0) return x * gelu_gate(x);
    if (Op == 1) return x * sigmoid(x);
    if (Op == 2) return x < A(0) ? A(0) : x;  // a NaN stays NaN
    if (Op == 3) return tanh_of(x);
    if (Op == 4) return sigmoid(x);
    if (Op == 5) return exp_of(x);
    if (Op == 6) return log_of(x);
    if (Op == 8) return x * normal_up_to(x);
    return root_of(x);
}

template <u32 Op, class A>
FASCICLE_DEVICE A activation_gradient(A x, A d_out) {
    if (Op == 0) return d_out * gelu_slope(x);
    if (Op == 1) return d_out * silu_slope(x);
    if (Op == 2) return x <= A(0) ? A(0) : d_out;
    if (Op == 3) return d_out * (A(1) - tanh_of(x) * tanh_of(x));
    if (Op == 4) return d_out * sigmoid(x) * (A(1) - sigmoid(x));
    if (Op == 5) return d_out * exp_of(x);
    if (Op == 6) return d_out / x;
    if (Op == 8) return d_out * gelu_erf_slope(x);
    return d_out / (A(2) * root_of(x));
}

template <u32 Op, class T>
FASCICLE_DEVICE void unary_loop(const UnaryParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_flat_packs<N>(p.len, [&](auto count, u64 start, u64 step, u64 left) {
        constexpr int R = decltype(count)::value;
        Pack<T, N> packs[R];
        load_each(static_cast<const T*>(p.x) + start, step, left, packs);
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            auto x = widened<Acc<T>>(packs[r]);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) x.at[i] = activate<Op>(x.at[i]);
            store_as<N>(static_cast<T*>(p.out) + start + r * step, x, left);
        }
    });
}

template <u32 Op, class T>
FASCICLE_DEVICE void unary_backward_loop(const UnaryBackwardParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_flat_packs<N>(p.len, [&](auto count, u64 start, u64 step, u64 left) {
        constexpr int R = decltype(count)::value;
        Pack<T, N> of_x[R], of_d[R];
        load_each(static_cast<const T*>(p.x) + start, step, left, of_x);
        load_each(static_cast<const T*>(p.d_out) + start, step, left, of_d);
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            auto x = widened<Acc<T>>(of_x[r]), d = widened<Acc<T>>(of_d[r]);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) d.at[i] = activation_gradient<Op>(x.at[i], d.at[i]);
            store_as<N>(static_cast<T*>(p.d_x) + start + r * step, d, left);
        }
    });
}

// One loop for each operation, so that the choice is made once.
template <class T>
FASCICLE_DEVICE void unary(const UnaryParams& p) {
    switch (p.op) {
        case 0: return unary_loop<0, T>(p);
        case 1: return unary_loop<1, T>(p);
        case 2: return unary_loop<2, T>(p);
        case 3: return unary_loop<3, T>(p);
        case 4: return unary_loop<4, T>(p);
        case 5: return unary_loop<5, T>(p);
        case 6: return unary_loop<6, T>(p);
        case 7: return unary_loop<7, T>(p);
        default: return unary_loop<8, T>(p);
    }
}

template <class T>
FASCICLE_DEVICE void unary_backward(const UnaryBackwardParams& p) {
    switch (p.op) {
        case 0: return unary_backward_loop<0, T>(p);
        case 1: return unary_backward_loop<1, T>(p);
        case 2: return unary_backward_loop<2, T>(p);
        case 3: return unary_backward_loop<3, T>(p);
        case 4: return unary_backward_loop<4, T>(p);
        case 5: return unary_backward_loop<5, T>(p);
        case 6: return unary_backward_loop<6, T>(p);
        case 7: return unary_backward_loop<7, T>(p);
        default: return unary_backward_loop<8, T>(p);
    }
}

template <class T>
FASCICLE_DEVICE void swiglu(const SwigluParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        auto gate = load_as<Acc<T>, N>(static_cast<const T*>(p.gate) + start, left);
        auto up = load_as<Acc<T>, N>(static_cast<const T*>(p.up) + start, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) up.at[i] *= gate.at[i] * sigmoid(gate.at[i]);
        store_as<N>(static_cast<T*>(p.out) + start, up, left);
    });
}

template <class T>
FASCICLE_DEVICE void swiglu_backward(const SwigluBackwardParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack<N>(p.len, [&](u64 start, u64 left) {
        auto gate = load_as<Acc<T>, N>(static_cast<const T*>(p.gate) + start, left);
        auto up = load_as<Acc<T>, N>(static_cast<const T*>(p.up) + start, left);
        auto d = load_as<Acc<T>, N>(static_cast<const T*>(p.d_out) + start, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            Acc<T> x = gate.at[i];
            gate.at[i] = d.at[i] * up.at[i] * silu_slope(x);
            up.at[i] = d.at[i] * x * sigmoid(x);
        }
        store_as<N>(static_cast<T*>(p.d_gate) + start, gate, left);
        store_as<N>(static_cast<T*>(p.d_up) + start, up, left);
    });
}

}  // namespace fascicle

#define FASCICLE_ACTIVATION(suffix, T) \
    FASCICLE_INDEPENDENT(fascicle_unary_##suffix, fascicle::UnaryParams, 256) { fascicle::unary<T>(p); } \
    FASCICLE_INDEPENDENT(fascicle_unary_backward_##suffix, fascicle::UnaryBackwardParams, 256) { \
        fascicle::unary_backward<T>(p); \
    } \
    FASCICLE_INDEPENDENT(fascicle_swiglu_##suffix, fascicle::SwigluParams, 256) { fascicle::swiglu<T>(p); } \
    FASCICLE_INDEPENDENT(fascicle_swiglu_backward_##suffix, fascicle::SwigluBackwardParams, 256) { \
        fascicle::swiglu_backward<T>(p); \
    }
FASCICLE_FLOATS(FASCICLE_ACTIVATION)
