// The entry of an exported function of HIP: counts it, makes it fail if a test requested that, and records the last error.
#pragma once

#include <cstdint>

#include "../core/symbols.h"

namespace emulator {

// HIP's addresses are pointers, even to device memory.
inline std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

// The thread's last error, which hipGetLastError returns and resets.
inline thread_local Status last_status = Status::Success;

inline Status remember(Status status) {
    if (failed(status)) last_status = status;
    return status;
}

}  // namespace emulator

// The name of a function that both vendors have.
#define NAME(cuda, hip) hip

// A call that acquires something: an injected failure replaces the work.
#define CALL(standard, ...)                      \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::remember(::emulator::enter(symbol, standard, [&]() -> ::emulator::Status __VA_ARGS__))

// A call that releases something: it does so even if it reports a failure.
#define RELEASE(...)                             \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::remember(::emulator::enter_release(symbol, ::emulator::Status::Unknown, [&]() -> ::emulator::Status __VA_ARGS__))

// Fills an out parameter that must not be null.
#define GIVE(pointer, value)                                    \
    do {                                                        \
        if (!(pointer)) return ::emulator::Status::InvalidValue; \
        *(pointer) = (value);                                   \
    } while (0)
