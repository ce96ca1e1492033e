// The element types of the vendors' BLAS and collectives, and how to read and write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulator {

enum class Type { F16, Bf16, F32, F64, I8, U8, I32, U32, I64, U64 };

constexpr std::size_t size_of(Type type) {
    switch (type) {
        case Type::I8: case Type::U8: return 1;
        case Type::F16: case Type::Bf16: return 2;
        case Type::F32: case Type::I32: case Type::U32: return 4;
        default: return 8;
    }
}

template <class To, class From>
inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// The upper half of an f32.
struct Bf16 {
    std::uint16_t raw;

    Bf16() = default;
    explicit Bf16(float value) {
        const auto whole = bits<std::uint32_t>(value);
        const bool nan = (whole & 0x7fffffff) > 0x7f800000;
        raw = static_cast<std::uint16_t>(nan ? (whole >> 16) | 0x40 : (whole + 0x7fff + ((whole >> 16) & 1)) >> 16);
    }
    explicit Bf16(double value) : Bf16(static_cast<float>(value)) {}
    operator float() const { return bits<float>(static_cast<std::uint32_t>(raw) << 16); }
};

// IEEE binary16. Both conversions use f32 arithmetic that rounds or scales exactly where the format does.
struct F16 {
    std::uint16_t raw;

    F16() = default;
    explicit F16(float value) {
        const auto whole = bits<std::uint32_t>(value);
        const std::uint32_t sign = whole >> 16 & 0x8000, magnitude = whole & 0x7fffffff;
        if (magnitude > 0x7f800000) raw = static_cast<std::uint16_t>(sign | 0x7e00);
        else if (magnitude >= 0x47800000) raw = static_cast<std::uint16_t>(sign | 0x7c00);
        else if (magnitude < 0x38800000) raw = static_cast<std::uint16_t>(sign | subnormal(magnitude));
        else raw = static_cast<std::uint16_t>(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
    }
    explicit F16(double value) : F16(static_cast<float>(value)) {}
    operator float() const {
        const std::uint32_t sign = static_cast<std::uint32_t>(raw & 0x8000) << 16, rest = raw & 0x7fff;
        if (rest >= 0x7c00) return bits<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
        return bits<float>(sign | bits<std::uint32_t>(bits<float>(rest << 13) * 0x1p112f));
    }

   private:
    // Adding 1/2 leaves the multiples of 2^-24 in the low bits, rounded to even.
    static std::uint32_t subnormal(std::uint32_t magnitude) {
        return bits<std::uint32_t>(bits<float>(magnitude) + 0.5f) - bits<std::uint32_t>(0.5f);
    }
};

// Calls `body` with a null pointer of the C++ type of `type`, which is one of BLAS.
template <class Body>
auto with_float(Type type, Body body) {
    switch (type) {
        case Type::F16: return body(static_cast<F16*>(nullptr));
        case Type::Bf16: return body(static_cast<Bf16*>(nullptr));
        case Type::F64: return body(static_cast<double*>(nullptr));
        default: return body(static_cast<float*>(nullptr));
    }
}

// The same, for integers too.
template <class Body>
auto with_type(Type type, Body body) {
    switch (type) {
        case Type::I8: return body(static_cast<std::int8_t*>(nullptr));
        case Type::U8: return body(static_cast<std::uint8_t*>(nullptr));
        case Type::I32: return body(static_cast<std::int32_t*>(nullptr));
        case Type::U32: return body(static_cast<std::uint32_t*>(nullptr));
        case Type::I64: return body(static_cast<std::int64_t*>(nullptr));
        case Type::U64: return body(static_cast<std::uint64_t*>(nullptr));
        default: return with_float(type, body);
    }
}

}  // namespace emulator
