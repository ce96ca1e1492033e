// How an exported function of the driver begins: counted, and told to fail where a test asks for it.
#pragma once

#include "../core/symbols.h"

// A call that gets something: a failure comes instead of the work.
#define CALL(standard, ...)                      \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::enter(symbol, standard, [&]() -> ::emulator::Status __VA_ARGS__)

// A call that gives something back: it does so even where it reports a failure.
#define RELEASE(...)                             \
    static ::emulator::Symbol symbol(__func__);  \
    return ::emulator::enter_release(symbol, ::emulator::Status::Unknown, [&]() -> ::emulator::Status __VA_ARGS__)

// Fills an out parameter that must not be null.
#define GIVE(pointer, value)                                    \
    do {                                                        \
        if (!(pointer)) return ::emulator::Status::InvalidValue; \
        *(pointer) = (value);                                   \
    } while (0)
