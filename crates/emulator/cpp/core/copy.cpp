#include "copy.h"

#include <cstring>

#include "graph.h"
#include "memory.h"

namespace emulator {

static char* bytes_at(std::uint64_t address) { return reinterpret_cast<char*>(address); }

static Status check(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction) {
    const bool host_to = direction == Direction::DeviceToHost || direction == Direction::Any;
    const bool host_from = direction == Direction::HostToDevice || direction == Direction::Any;
    TRY(check_range(nullptr, to, bytes, host_to, "destination"));
    return check_range(nullptr, from, bytes, host_from, "source");
}

static bool pageable(std::uint64_t address) {
    Region region;
    return !find_region(address, region);
}

Status copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction, const StreamRef& stream) {
    if (bytes == 0) return Status::Success;
    TRY(check(to, from, bytes, direction));
    Work work = [=] {
        std::memmove(bytes_at(to), bytes_at(from), bytes);
        return Status::Success;
    };
    if (pageable(from) && !stream->capturing()) {
        work = [to, copy = std::vector<char>(bytes_at(from), bytes_at(from) + bytes)] {
            std::memcpy(bytes_at(to), copy.data(), copy.size());
            return Status::Success;
        };
    }
    const auto ticket = stream->submit(std::move(work), {{from, bytes, false}, {to, bytes, true}}, current_symbol());
    if (!ticket || !pageable(to)) return Status::Success;
    const auto clock = stream->timeline.now();
    ticket->wait();
    observe(clock);
    return Status::Success;
}

static bool on_device(std::uint64_t address) {
    Region region;
    return find_region(address, region) && region.place == Place::Device;
}

Status copy_and_wait(std::uint64_t to, std::uint64_t from, std::size_t bytes, Direction direction) {
    StreamRef stream;
    TRY(check_uncaptured());
    TRY(find_stream(nullptr, stream));
    TRY(copy(to, from, bytes, direction, stream));
    if (on_device(to) && on_device(from)) return Status::Success;
    return synchronize_stream(stream);
}

static void fill_now(char* to, unsigned value, std::size_t width, std::size_t count) {
    if (width == 1) {
        std::memset(to, static_cast<int>(value), count);
        return;
    }
    for (std::size_t index = 0; index < count; ++index) std::memcpy(to + index * width, &value, width);
}

Status fill(std::uint64_t to, unsigned value, std::size_t width, std::size_t count, const StreamRef& stream) {
    TRY(check_range(stream->context, to, width * count, false, "destination"));
    stream->submit([=] {
        fill_now(bytes_at(to), value, width, count);
        return Status::Success;
    }, {{to, width * count, true}}, current_symbol());
    return Status::Success;
}

}  // namespace emulator
