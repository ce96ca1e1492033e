// The driver: copies and fills.
#include "../core/copy.h"

#include "call.h"

using namespace emulator;
using Address = std::uint64_t;

static Address number(const void* address) { return reinterpret_cast<Address>(address); }

static Status copy_in(Address to, Address from, std::size_t bytes, Direction direction, void* handle) {
    StreamRef stream;
    TRY(find_stream(handle, stream));
    return copy(to, from, bytes, direction, stream);
}

static Status fill_in(Address to, unsigned value, std::size_t width, std::size_t count, void* handle) {
    StreamRef stream;
    TRY(find_stream(handle, stream));
    if (to % width != 0) return misuse(Status::InvalidValue, "%#lx is not aligned to %zu bytes", to, width);
    return fill(to, value, width, count, stream);
}

EXPORT Status cuMemcpy(Address to, Address from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(to, from, bytes, Direction::Any); });
}

EXPORT Status cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(to, number(from), bytes, Direction::HostToDevice); });
}

EXPORT Status cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(number(to), from, bytes, Direction::DeviceToHost); });
}

EXPORT Status cuMemcpyDtoD_v2(Address to, Address from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(to, from, bytes, Direction::DeviceToDevice); });
}

EXPORT Status cuMemcpyAsync(Address to, Address from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::Any, stream); });
}

EXPORT Status cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, number(from), bytes, Direction::HostToDevice, stream); });
}

EXPORT Status cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(number(to), from, bytes, Direction::DeviceToHost, stream); });
}

EXPORT Status cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::DeviceToDevice, stream); });
}

EXPORT Status cuMemcpyPeer(Address to, void*, Address from, void*, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(to, from, bytes, Direction::DeviceToDevice); });
}

EXPORT Status cuMemcpyPeerAsync(Address to, void*, Address from, void*, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::DeviceToDevice, stream); });
}

EXPORT Status cuMemsetD8_v2(Address to, unsigned char value, std::size_t count) {
    CALL(Status::Unknown, { return fill_in(to, value, 1, count, nullptr); });
}

EXPORT Status cuMemsetD16_v2(Address to, unsigned short value, std::size_t count) {
    CALL(Status::Unknown, { return fill_in(to, value, 2, count, nullptr); });
}

EXPORT Status cuMemsetD32_v2(Address to, unsigned value, std::size_t count) {
    CALL(Status::Unknown, { return fill_in(to, value, 4, count, nullptr); });
}

EXPORT Status cuMemsetD8Async(Address to, unsigned char value, std::size_t count, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, value, 1, count, stream); });
}

EXPORT Status cuMemsetD16Async(Address to, unsigned short value, std::size_t count, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, value, 2, count, stream); });
}

EXPORT Status cuMemsetD32Async(Address to, unsigned value, std::size_t count, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, value, 4, count, stream); });
}
