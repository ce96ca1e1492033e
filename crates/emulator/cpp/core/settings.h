// The emulator's settings from the environment, read once on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

struct Settings {
    int devices;                   // FASCICLE_EMULATOR_DEVICES, default 8
    std::size_t memory_bytes;      // FASCICLE_EMULATOR_MEMORY, bytes of each device (k, m, g may follow), default 16g
    int multiprocessors;           // FASCICLE_EMULATOR_MULTIPROCESSORS, default 8: few, because blocks run one by one
    int compute_capability;        // FASCICLE_EMULATOR_CAPABILITY, default 90 (for 9.0)
    std::string architecture;      // of the kernels that a device runs: 90 in CUDA; in HIP FASCICLE_EMULATOR_GFX
    bool delay;                    // FASCICLE_EMULATOR_DELAY is set
    std::uint64_t delay_seed;      // its value: SEED or SEED:MICROSECONDS
    std::uint64_t delay_us;        // the longest sleep, default 1000
    bool poison;                   // FASCICLE_EMULATOR_POISON is not 0: new and freed memory is filled with NaN
    bool races;                    // FASCICLE_EMULATOR_RACES is not 0: accesses without an order are reported
    std::size_t queues;            // FASCICLE_EMULATOR_QUEUES, hardware queues of each priority; 0: one for each stream
    std::size_t resident;          // FASCICLE_EMULATOR_RESIDENT, collectives that a device runs at a time; 0: any number
    bool allocations_wait;         // FASCICLE_EMULATOR_WAITS has `allocate`: for the running work of the device
    bool pins_wait;                // the same with `pin`: pinned memory, and registered pages
    bool releases_wait;            // the same with `free`: memory of both kinds
    bool loads_wait;               // the same with `load`
    std::uint64_t quarantine_bytes;  // FASCICLE_EMULATOR_QUARANTINE, default 64m: freed memory watched for late writes
};

// The settings of this process.
const Settings& settings();

// A variable's value, or null if it is absent or empty.
const char* variable(const char* name);

// A count with an optional suffix k, m or g (powers of 1024); `standard` if the variable is absent.
std::uint64_t quantity(const char* name, std::uint64_t standard);

}  // namespace emulator
