// HIP: copies and fills.
#include "../core/copy.h"

#include "call.h"

using namespace emulator;

// hipMemcpyKind: host to host 0, host to device 1, device to host 2, device to device 3, by the addresses 4.
static Status direction_of(int kind, Direction& direction) {
    constexpr Direction kinds[] = {Direction::Any, Direction::HostToDevice, Direction::DeviceToHost, Direction::DeviceToDevice, Direction::Any};
    if (kind < 0 || kind > 4) return misuse(Status::InvalidValue, "kind of copy %d", kind);
    direction = kinds[kind];
    return Status::Success;
}

static Status copy_in(void* to, const void* from, std::size_t bytes, Direction direction, void* handle) {
    StreamRef stream;
    TRY(find_stream(handle, stream));
    return copy(number(to), number(from), bytes, direction, stream);
}

static Status fill_in(const void* to, unsigned value, std::size_t width, std::size_t count, void* handle) {
    StreamRef stream;
    TRY(find_stream(handle, stream));
    if (number(to) % width != 0) return misuse(Status::InvalidValue, "%p is not aligned to %zu bytes", to, width);
    return fill(number(to), value, width, count, stream);
}

EXPORT Status hipMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
    CALL(Status::Unknown, {
        Direction direction;
        TRY(direction_of(kind, direction));
        return copy_and_wait(number(to), number(from), bytes, direction);
    });
}

EXPORT Status hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
    CALL(Status::Unknown, {
        Direction direction;
        TRY(direction_of(kind, direction));
        return copy_in(to, from, bytes, direction, stream);
    });
}

EXPORT Status hipMemcpyHtoD(void* to, void* from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(number(to), number(from), bytes, Direction::HostToDevice); });
}

EXPORT Status hipMemcpyDtoH(void* to, void* from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(number(to), number(from), bytes, Direction::DeviceToHost); });
}

EXPORT Status hipMemcpyDtoD(void* to, void* from, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(number(to), number(from), bytes, Direction::DeviceToDevice); });
}

EXPORT Status hipMemcpyHtoDAsync(void* to, const void* from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::HostToDevice, stream); });
}

EXPORT Status hipMemcpyDtoHAsync(void* to, void* from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::DeviceToHost, stream); });
}

EXPORT Status hipMemcpyDtoDAsync(void* to, void* from, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::DeviceToDevice, stream); });
}

EXPORT Status hipMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
    CALL(Status::Unknown, { return copy_and_wait(number(to), number(from), bytes, Direction::DeviceToDevice); });
}

EXPORT Status hipMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return copy_in(to, from, bytes, Direction::DeviceToDevice, stream); });
}

EXPORT Status hipMemset(void* to, int value, std::size_t bytes) {
    CALL(Status::Unknown, { return fill_in(to, value & 0xff, 1, bytes, nullptr); });
}

EXPORT Status hipMemsetAsync(void* to, int value, std::size_t bytes, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, value & 0xff, 1, bytes, stream); });
}

EXPORT Status hipMemsetD8Async(void* to, unsigned char value, std::size_t count, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, value, 1, count, stream); });
}

EXPORT Status hipMemsetD16Async(void* to, unsigned short value, std::size_t count, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, value, 2, count, stream); });
}

EXPORT Status hipMemsetD32Async(void* to, int value, std::size_t count, void* stream) {
    CALL(Status::Unknown, { return fill_in(to, static_cast<unsigned>(value), 4, count, stream); });
}
