// How an exported function of HIP begins: counted, told to fail where a test asks for it, and remembered as the last error.
#pragma once

#include <cstdint>

#include "../core/symbols.h"

namespace emulator {

// HIP's addresses are pointers, also where they are on a device.
inline std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

// The thread's last error, which hipGetLastError gives and forgets.
inline thread_local Status last_status = Status::Success;

inline Status remember(Status status) {
    if (failed(status)) last_status = status;
    return status;
}

}  // namespace emulator

// A call that gets something: a failure comes instead of the work.
#define CALL(standard, ...)                      \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::remember(::emulator::enter(symbol, standard, [&]() -> ::emulator::Status __VA_ARGS__))

// A call that gives something back: it does so even where it reports a failure.
#define RELEASE(...)                             \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::remember(::emulator::enter_release(symbol, ::emulator::Status::Unknown, [&]() -> ::emulator::Status __VA_ARGS__))

// Fills an out parameter that must not be null.
#define GIVE(pointer, value)                                    \
    do {                                                        \
        if (!(pointer)) return ::emulator::Status::InvalidValue; \
        *(pointer) = (value);                                   \
    } while (0)
