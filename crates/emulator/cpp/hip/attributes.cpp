// HIP: the properties of devices and functions, as attributes and as each generation's struct.
#include <cstdio>
#include <cstring>

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

// hipDeviceAttribute_t, the same in HIP 5.7 to 7.1, with the limits of one die of an MI250X.
constexpr Attribute attributes[] = {
    {2, 8},             // AsyncEngineCount
    {3, 1},             // CanMapHostMemory
    {5, 1700000},       // ClockRate, kHz
    {8, 1},             // ConcurrentKernels
    {10, 0},            // CooperativeLaunch
    {16, 0},            // Integrated
    {19, 8 << 20},      // L2CacheSize
    {23, 9},            // ComputeCapabilityMajor
    {24, 0},            // ManagedMemory
    {26, 1024},         // MaxBlockDimX
    {27, 1024},         // MaxBlockDimY
    {28, 1024},         // MaxBlockDimZ
    {29, 2147483647},   // MaxGridDimX
    {30, 65536},        // MaxGridDimY
    {31, 65536},        // MaxGridDimZ
    {56, 1024},         // MaxThreadsPerBlock
    {57, 2048},         // MaxThreadsPerMultiProcessor
    {59, 4096},         // MemoryBusWidth, bits
    {60, 1600000},      // MemoryClockRate, kHz
    {61, 0},            // ComputeCapabilityMinor
    {68, 0},            // PciDeviceId
    {69, 0},            // PciDomainID
    {71, 65536},        // MaxRegistersPerBlock
    {74, 64 * 1024},    // MaxSharedMemoryPerBlock
    {78, 1},            // StreamPrioritiesSupported
    {85, 1},            // UnifiedAddressing
    {87, 64},           // WarpSize
    {88, 1},            // MemoryPoolsSupported
    {10002, 64 * 1024},  // MaxSharedMemoryPerMultiprocessor
};

bool find_attribute(int number, int device, int& value) {
    if (number == 63) value = settings().multiprocessors;
    else if (number == 67) value = device + 1;
    for (const auto& attribute : attributes)
        if (attribute.number == number) value = attribute.value;
    return value >= 0;
}

// Offsets of the fields that are filled; the rest of the struct is zero.
struct Layout {
    std::size_t bytes, total, shared, registers, warp, threads, major, minor, multiprocessors, architecture;
};
constexpr Layout layout_5 = {792, 256, 264, 272, 276, 280, 328, 332, 336, 396};
[[maybe_unused]] constexpr Layout layout_6 = {1472, 288, 296, 304, 308, 320, 360, 364, 388, 1160};

template <class Value>
void put(char* structure, std::size_t offset, Value value) {
    std::memcpy(structure + offset, &value, sizeof value);
}

Status fill_properties(char* structure, int device, const Layout& layout) {
    TRY(check_device(device));
    if (!structure) return Status::InvalidValue;
    std::memset(structure, 0, layout.bytes);
    std::snprintf(structure, 256, "Fascicle emulator (HIP)");
    put(structure, layout.total, settings().memory_bytes);
    put(structure, layout.shared, std::size_t(64 * 1024));
    put(structure, layout.registers, 65536);
    put(structure, layout.warp, 64);
    put(structure, layout.threads, 1024);
    put(structure, layout.major, 9);
    put(structure, layout.minor, 0);
    put(structure, layout.multiprocessors, settings().multiprocessors);
    std::snprintf(structure + layout.architecture, 256, "%s", settings().architecture.c_str());
    return Status::Success;
}

}  // namespace

EXPORT Status hipDeviceGetAttribute(int* value, int number, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        int found = -1;
        if (!find_attribute(number, device, found)) return misuse(Status::InvalidValue, "device attribute %d is not emulated", number);
        GIVE(value, found);
        return Status::Success;
    });
}

// The symbol without a suffix keeps the struct of HIP 5, in newer libraries too.
EXPORT Status hipGetDeviceProperties(char* structure, int device) {
    CALL(Status::Unknown, { return fill_properties(structure, device, layout_5); });
}

#if EMULATOR_HIP_VERSION >= 60000000
EXPORT Status hipGetDevicePropertiesR0600(char* structure, int device) {
    CALL(Status::Unknown, { return fill_properties(structure, device, layout_6); });
}
#endif

EXPORT Status hipFuncGetAttribute(int* value, int number, void* function) {
    CALL(Status::Unknown, {
        FunctionRef found;
        TRY(find_function(function, found));
        GIVE(value, number == 0 ? 1024 : number == 4 ? 64 : number == 8 ? 64 * 1024 : 0);
        return Status::Success;
    });
}

EXPORT Status hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, std::size_t) {
    CALL(Status::Unknown, {
        FunctionRef found;
        TRY(find_function(function, found));
        if (threads <= 0 || threads > 1024) return Status::InvalidValue;
        GIVE(blocks, 2048 / threads);
        return Status::Success;
    });
}
