// Device memory and pinned host memory: pieces of one reserved range, whose addresses are never reused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "context.h"
#include "stream.h"

namespace emulator {

enum class Place { Device, Pinned, Registered };

// The properties of an address.
struct Region {
    std::uint64_t address;
    std::size_t bytes;
    int device;
    Place place;
    bool live;
};

// # Errors: OutOfMemory beyond the device's memory, InvalidValue for zero bytes.
Status allocate(const ContextRef& context, Place place, std::size_t bytes, std::uint64_t* address);
// Frees an allocation by its first address.
Status release(std::uint64_t address, Place place);
// Registers host memory as pinned, and unregisters it.
Status register_host(void* address, std::size_t bytes);
Status unregister_host(void* address);

// Stream-ordered: the address is valid at once, and the memory is freed when the stream reaches the release.
Status allocate_in_order(const StreamRef& stream, std::size_t bytes, std::uint64_t* address);
Status release_in_order(std::uint64_t address, const StreamRef& stream);

// The region that holds an address; false outside of all regions, or if it is freed and `live` is requested.
bool find_region(std::uint64_t address, Region& region);
// Whether `bytes` from `address` lie in one live allocation that `context` reaches; `what` names them in the report.
// Without a context any device will do, as in a copy between devices.
// Unregistered host memory passes only if `host` allows it.
Status check_range(const ContextRef& context, std::uint64_t address, std::size_t bytes, bool host, const char* what);
// Whether a number is an address in freed memory.
bool is_freed(std::uint64_t address);

void memory_of(int device, std::size_t& free_bytes, std::size_t& total_bytes);
long live_allocations();
long live_pinned();
std::size_t live_bytes();

}  // namespace emulator
