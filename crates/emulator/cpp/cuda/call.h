// The entry of an exported function of the driver: counts it, and makes it fail if a test requested that.
#pragma once

#include "../core/symbols.h"

// The name of a function that both vendors have.
#define NAME(cuda, hip) cuda

// A call that acquires something: an injected failure replaces the work.
#define CALL(standard, ...)                      \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::enter(symbol, standard, [&]() -> ::emulator::Status __VA_ARGS__)

// A call that releases something: it does so even if it reports a failure.
#define RELEASE(...)                             \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::enter_release(symbol, ::emulator::Status::Unknown, [&]() -> ::emulator::Status __VA_ARGS__)

// Fills an out parameter that must not be null.
#define GIVE(pointer, value)                                    \
    do {                                                        \
        if (!(pointer)) return ::emulator::Status::InvalidValue; \
        *(pointer) = (value);                                   \
    } while (0)
