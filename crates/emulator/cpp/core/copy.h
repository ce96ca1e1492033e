// Copies and fills in stream order. The host's side behaves as the vendors define it.
#pragma once

#include "stream.h"

namespace emulator {

// The side of a copy that must be device memory or pinned; the other may be any host memory.
enum class Direction { HostToDevice, DeviceToHost, DeviceToDevice, Any };

// Pageable host memory is read and written before the call returns. Pinned memory is read and written when the stream
// reaches the copy.
Status copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction, const StreamRef& stream);
// In the default stream; the host waits unless both sides are device memory.
Status copy_and_wait(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction);
// Fills `count` elements of `width` bytes (1, 2, 4).
Status fill(std::uint64_t to, unsigned value, std::size_t width, std::size_t count, const StreamRef& stream);

}  // namespace emulator
