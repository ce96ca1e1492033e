// Element types, the accumulators that computations on them use, and the functions of both.
#pragma once

#include "portable.h"

#if defined(FASCICLE_CUDA)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <math.h>
#include <string.h>
#endif

namespace fascicle {

struct bf16 { u16 bits; };
struct f16 { u16 bits; };

template <class T> struct AccumulatorOf { using Type = float; };
template <> struct AccumulatorOf<double> { using Type = double; };
// The type in which sums over elements of type T are held.
template <class T> using Acc = typename AccumulatorOf<T>::Type;

// The bits of a number as an integer, and back.
template <class To, class From>
FASCICLE_DEVICE To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    union { From from; To to; } both;
    both.from = from;
    return both.to;
}

// An element as its accumulator.
FASCICLE_DEVICE float widen(float x) { return x; }
FASCICLE_DEVICE double widen(double x) { return x; }
FASCICLE_DEVICE float widen(bf16 x) { return same_bits<float>(u32(x.bits) << 16); }
FASCICLE_DEVICE float widen(f16 x) {
#if defined(FASCICLE_CUDA)
    return __half2float(__ushort_as_half(x.bits));
#else
    return float(__builtin_bit_cast(_Float16, x.bits));
#endif
}

// The element of type T nearest to a float; ties go to the even one.
template <class T> struct Narrow;
template <> struct Narrow<float> { static FASCICLE_DEVICE float of(float x) { return x; } };
template <> struct Narrow<double> { static FASCICLE_DEVICE double of(float x) { return x; } };
template <> struct Narrow<bf16> {
    static FASCICLE_DEVICE bf16 of(float x) {
#if defined(FASCICLE_CUDA)
        return bf16{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
        u32 bits = same_bits<u32>(x);
        u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        return bf16{u16(x != x ? (bits >> 16) | 0x40 : rounded)};
#endif
    }
};
template <> struct Narrow<f16> {
    static FASCICLE_DEVICE f16 of(float x) {
#if defined(FASCICLE_CUDA)
        return f16{__half_as_ushort(__float2half_rn(x))};
#else
        return f16{__builtin_bit_cast(u16, _Float16(x))};
#endif
    }
};

template <class T>
FASCICLE_DEVICE T narrow(float x) { return Narrow<T>::of(x); }

// An inexact result gets an odd last digit, so that rounding it again to a shorter type equals rounding once.
FASCICLE_DEVICE float round_to_odd(double x) {
    float near = float(x);
    double back = double(near);
    u32 bits = same_bits<u32>(near);
    u32 towards_zero = (back < 0 ? -back : back) > (x < 0 ? -x : x) ? bits - 1 : bits;
    return back == x || x != x ? near : same_bits<float>(towards_zero | 1);
}

template <class T> struct NarrowWide {
    static FASCICLE_DEVICE T of(double x) { return narrow<T>(round_to_odd(x)); }
};
template <> struct NarrowWide<float> { static FASCICLE_DEVICE float of(double x) { return float(x); } };
template <> struct NarrowWide<double> { static FASCICLE_DEVICE double of(double x) { return x; } };

template <class T>
FASCICLE_DEVICE T narrow(double x) { return NarrowWide<T>::of(x); }

template <class A>
FASCICLE_DEVICE A minus_infinity() { return A(-same_bits<float>(0x7f800000u)); }

// a * b + c, rounded once. Kernels are compiled so that no product and sum are fused but by this function: a compiler that
// fuses where it pleases may give one element other bits than its neighbour, which another branch computes.
FASCICLE_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
FASCICLE_DEVICE double multiply_add(double a, double b, double c) { return fma(a, b, c); }

FASCICLE_DEVICE float exp_of(float x) { return expf(x); }
FASCICLE_DEVICE double exp_of(double x) { return exp(x); }
FASCICLE_DEVICE float log_of(float x) { return logf(x); }
FASCICLE_DEVICE double log_of(double x) { return log(x); }
FASCICLE_DEVICE float root_of(float x) { return sqrtf(x); }
FASCICLE_DEVICE double root_of(double x) { return sqrt(x); }
FASCICLE_DEVICE float erfc_of(float x) { return erfcf(x); }
FASCICLE_DEVICE double erfc_of(double x) { return erfc(x); }
FASCICLE_DEVICE float tanh_of(float x) { return tanhf(x); }
FASCICLE_DEVICE double tanh_of(double x) { return tanh(x); }

constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

// 2 to the power x by the hardware's unit, which turns denormal results into 0.
FASCICLE_DEVICE float power_of_two(float x) {
#if defined(FASCICLE_CUDA)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#elif defined(__HIP_DEVICE_COMPILE__) && __has_builtin(__builtin_amdgcn_exp2f)
    return __builtin_amdgcn_exp2f(x);
#elif defined(__HIP_DEVICE_COMPILE__)
    // A compiler without the builtin does not know gfx942 either, on which a use of the result must wait; that wait is
    // added to the builtin only.
    float y;
    asm("v_exp_f32 %0, %1" : "=v"(y) : "v"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// e to the power x - max, for x of at most about `max`, of which minus infinity counts as 0. The error is that of rounding beside
// 1, which is what counts beside the largest of such numbers.
FASCICLE_DEVICE float exp_below(float x, float max) {
    return power_of_two((x - (max == minus_infinity<float>() ? 0.0f : max)) * LOG2_E);
}
FASCICLE_DEVICE double exp_below(double x, double max) { return exp(x - (max == minus_infinity<double>() ? 0.0 : max)); }

// One instruction each on a device. A number that is not a NaN counts as larger than one: where a NaN must show, it also
// enters the sum.
FASCICLE_DEVICE float larger(float a, float b) { return fmaxf(a, b); }
FASCICLE_DEVICE double larger(double a, double b) { return fmax(a, b); }

// 1 / x by the hardware's unit, to the last digit or the one before, for x of at least 1. It has no branch for the numbers whose
// inverse is denormal, of which the unit makes 0.
FASCICLE_DEVICE float inverse_of(float x) {
#if defined(FASCICLE_CUDA)
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#elif defined(__HIP_DEVICE_COMPILE__) && __has_builtin(__builtin_amdgcn_rcpf)
    return __builtin_amdgcn_rcpf(x);
#else
    return 1.0f / x;
#endif
}
FASCICLE_DEVICE double inverse_of(double x) { return 1.0 / x; }

template <class A>
FASCICLE_DEVICE A sigmoid(A x) { return inverse_of(A(1) + exp_of(-x)); }

}  // namespace fascicle

// Every element type that kernels compute on, for macros: suffix of the name, type.
#define FASCICLE_FLOATS(with) with(f64, double) with(f32, float) with(bf16, fascicle::bf16) with(f16, fascicle::f16)
#define FASCICLE_ACCUMULATORS(with) with(f64, double) with(f32, float)
