// The driver: the properties of devices and functions.
#include "../core/context.h"
#include "../core/module.h"
#include "../core/settings.h"
#include "call.h"

using namespace emulator;

namespace {

struct Attribute {
    int number;
    int value;
};

// CU_DEVICE_ATTRIBUTE_*, with an H100's limits.
constexpr Attribute attributes[] = {
    {1, 1024},         // MAX_THREADS_PER_BLOCK
    {2, 1024},         // MAX_BLOCK_DIM_X
    {3, 1024},         // MAX_BLOCK_DIM_Y
    {4, 64},           // MAX_BLOCK_DIM_Z
    {5, 2147483647},   // MAX_GRID_DIM_X
    {6, 65535},        // MAX_GRID_DIM_Y
    {7, 65535},        // MAX_GRID_DIM_Z
    {8, 48 * 1024},    // MAX_SHARED_MEMORY_PER_BLOCK
    {9, 64 * 1024},    // TOTAL_CONSTANT_MEMORY
    {10, 32},          // WARP_SIZE
    {12, 65536},       // MAX_REGISTERS_PER_BLOCK
    {13, 1980000},     // CLOCK_RATE, kHz
    {18, 0},           // INTEGRATED
    {19, 1},           // CAN_MAP_HOST_MEMORY
    {20, 0},           // COMPUTE_MODE: default
    {31, 1},           // CONCURRENT_KERNELS
    {32, 0},           // ECC_ENABLED
    {34, 0},           // PCI_DEVICE_ID
    {36, 2619000},     // MEMORY_CLOCK_RATE, kHz
    {37, 5120},        // GLOBAL_MEMORY_BUS_WIDTH, bits
    {38, 50 << 20},    // L2_CACHE_SIZE
    {39, 2048},        // MAX_THREADS_PER_MULTIPROCESSOR
    {40, 3},           // ASYNC_ENGINE_COUNT
    {41, 1},           // UNIFIED_ADDRESSING
    {50, 0},           // PCI_DOMAIN_ID
    {78, 1},           // STREAM_PRIORITIES_SUPPORTED
    {81, 228 * 1024},  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    {82, 65536},       // MAX_REGISTERS_PER_MULTIPROCESSOR
    {83, 0},           // MANAGED_MEMORY
    {84, 0},           // MULTI_GPU_BOARD
    {95, 0},           // COOPERATIVE_LAUNCH
    {97, 227 * 1024},  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    {106, 32},         // MAX_BLOCKS_PER_MULTIPROCESSOR
    {115, 1},          // MEMORY_POOLS_SUPPORTED
};

bool find_attribute(int number, int device, int& value) {
    switch (number) {
        case 16: value = settings().multiprocessors; return true;
        case 33: value = device + 1; return true;
        case 75: value = settings().compute_capability / 10; return true;
        case 76: value = settings().compute_capability % 10; return true;
    }
    for (const auto& attribute : attributes) {
        if (attribute.number != number) continue;
        value = attribute.value;
        return true;
    }
    return false;
}

}  // namespace

EXPORT Status cuDeviceGetAttribute(int* value, int number, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        int found = 0;
        if (!find_attribute(number, device, found)) return misuse(Status::InvalidValue, "device attribute %d is not emulated", number);
        GIVE(value, found);
        return Status::Success;
    });
}

EXPORT Status cuDeviceComputeCapability(int* major, int* minor, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        GIVE(major, settings().compute_capability / 10);
        GIVE(minor, settings().compute_capability % 10);
        return Status::Success;
    });
}

EXPORT Status cuFuncGetAttribute(int* value, int number, void* function) {
    CALL(Status::Unknown, {
        FunctionRef found;
        TRY(find_function(function, found));
        switch (number) {
            case 0: GIVE(value, 1024); return Status::Success;                                         // MAX_THREADS_PER_BLOCK
            case 4: GIVE(value, 32); return Status::Success;                                           // NUM_REGS
            case 8: GIVE(value, static_cast<int>(found->shared_limit.load())); return Status::Success;  // MAX_DYNAMIC_SHARED
            default: GIVE(value, 0); return number < 16 ? Status::Success : Status::InvalidValue;
        }
    });
}

EXPORT Status cuFuncSetAttribute(void* function, int number, int value) {
    CALL(Status::Unknown, {
        FunctionRef found;
        TRY(find_function(function, found));
        if (number == 8) return allow_shared(found, value);
        return number == 9 ? Status::Success : Status::InvalidValue;  // PREFERRED_SHARED_MEMORY_CARVEOUT is a hint
    });
}

EXPORT Status cuFuncSetCacheConfig(void* function, int) {
    CALL(Status::Unknown, {
        FunctionRef found;
        return find_function(function, found);
    });
}

EXPORT Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, std::size_t shared_bytes) {
    CALL(Status::Unknown, {
        FunctionRef found;
        TRY(find_function(function, found));
        if (threads <= 0 || threads > 1024) return Status::InvalidValue;
        const int by_threads = 2048 / threads;
        const int by_shared = shared_bytes ? static_cast<int>(228 * 1024 / shared_bytes) : by_threads;
        GIVE(blocks, by_threads < by_shared ? by_threads : by_shared);
        return Status::Success;
    });
}
