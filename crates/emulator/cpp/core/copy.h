// Copies and fills in stream order, with the host's side as the vendors define it.
#pragma once

#include "stream.h"

namespace emulator {

// Which side of a copy must be memory of a device or pinned; the other may be any memory of the host.
enum class Direction { HostToDevice, DeviceToHost, DeviceToDevice, Any };

// Memory of the host that is not pinned is read before the call returns, and written before it returns; pinned memory is
// read and written when the stream comes to it.
Status copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction, const StreamRef& stream);
// In the default stream; the host waits unless both sides are device memory.
Status copy_and_wait(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction);
// Fills `count` elements of `width` bytes (1, 2, 4).
Status fill(std::uint64_t to, unsigned value, std::size_t width, std::size_t count, const StreamRef& stream);

}  // namespace emulator
