// Applies an epilogue to one sum.
#pragma once

#include <cmath>

#include "product.h"

namespace emulator {

constexpr float gelu_scale = 0.7978845608f, gelu_cubic = 0.044715f;  // the square root of 2 / pi

inline float gelu(float x) { return 0.5f * x * (1 + std::tanh(gelu_scale * (x + gelu_cubic * x * x * x))); }

inline float gelu_slope(float x) {
    const float bent = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
    return 0.5f * (1 + bent) + 0.5f * x * (1 - bent * bent) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

// Applies the curve to the sum. GELU stores its input in `aux` if it has one.
template <class Element>
float finish(const Epilogue& epilogue, float value, Element* aux) {
    switch (epilogue.curve) {
        case Curve::Gelu:
            if (aux) *aux = static_cast<Element>(value);
            return gelu(value);
        case Curve::GeluSlope: return value * gelu_slope(static_cast<float>(*aux));
        default: return value;
    }
}

inline float bias_at(const Epilogue& epilogue, std::int64_t row) {
    return with_float(epilogue.bias_type, [&](auto* type) {
        return static_cast<float>(static_cast<const std::remove_pointer_t<decltype(type)>*>(epilogue.bias)[row]);
    });
}

}  // namespace emulator
