// The library's interface: looks a kernel up by name, and runs it.
#include <stdio.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "block.h"

namespace simt {

bool run_block(const Kernel& kernel, const void* arguments, const Place& place);

namespace {

enum Status { Ok = 0, NoSuchFunction = 1, InvalidLaunch = 2, BlockStuck = 3, Misaligned = 4, Overrun = 5 };

// Shared memory that a block may ask for, on Hopper and on CDNA.
constexpr unsigned most_shared(const Kernel& kernel) { return (kernel.warp == 64 ? 64 : 227) << 10; }
// Bytes behind it that a kernel must leave as they are.
constexpr unsigned RED_ZONE = 4096;

using Table = std::map<std::pair<std::string, uint32_t>, Kernel>;

Table& table() {
    static Table kernels;
    return kernels;
}

std::multimap<std::string, Operand>& operands() {
    static std::multimap<std::string, Operand> rows;
    return rows;
}

// Whether the launch on this thread has made a misaligned access.
thread_local bool is_misaligned;

const Kernel* find(const char* name, int warp) {
    auto found = table().find({name, uint32_t(warp)});
    return found == table().end() ? nullptr : &found->second;
}

bool fits(const Kernel& kernel, const Place& place, unsigned shared_bytes) {
    uint64_t threads = uint64_t(place.block_size.x) * place.block_size.y * place.block_size.z;
    bool whole_warps = !kernel.meets || threads % kernel.warp == 0;
    bool some_blocks = place.grid_size.x > 0 && place.grid_size.y > 0 && place.grid_size.z > 0;
    bool few_enough = place.grid_size.y <= 65535 && place.grid_size.z <= 65535;
    return threads > 0 && threads <= kernel.max_threads && whole_warps && some_blocks && few_enough &&
           shared_bytes <= most_shared(kernel);
}

bool run_in_a_loop(const Kernel& kernel, const void* arguments, const Place& at) {
    place = at;
    uint32_t width = at.block_size.x, height = at.block_size.y, threads = width * height * at.block_size.z;
    const Shuffle order(threads, at.block.x);
    for (uint32_t i = 0; i < threads; i++) {
        auto thread = uint32_t(order[i]);
        place.thread = {thread % width, thread / width % height, thread / width / height};
        kernel.run(arguments);
    }
    return true;
}

// Shared memory, and what lies behind it, is full of NaN when a block starts, so that a kernel that reads what it has not
// written shows.
Status run_one(const Kernel& kernel, const void* arguments, const Place& at, unsigned shared_bytes) {
    if (!kernel.meets) return run_in_a_loop(kernel, arguments, at) ? Ok : BlockStuck;
    memset(at.shared, 0xff, shared_bytes + RED_ZONE);
    if (!run_block(kernel, arguments, at)) return BlockStuck;
    const uint8_t* behind = at.shared + shared_bytes;
    bool stays = std::all_of(behind, behind + RED_ZONE, [](uint8_t byte) { return byte == 0xff; });
    if (!stays) fprintf(stderr, "a write behind the %u bytes of shared memory that the launch asked for\n", shared_bytes);
    return stays ? Ok : Overrun;
}

Status run_grid(const Kernel& kernel, const void* arguments, Place at, unsigned shared_bytes) {
    std::vector<uint64_t> shared((shared_bytes + RED_ZONE) / 8 + 3);
    at.shared = reinterpret_cast<uint8_t*>((uintptr_t(shared.data()) + 15) & ~uintptr_t(15));
    uint64_t width = at.grid_size.x, height = at.grid_size.y, blocks = width * height * at.grid_size.z;
    const Shuffle order(blocks, kernel.argument_bytes);
    is_misaligned = false;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t block = order[i];
        at.block = {uint32_t(block % width), uint32_t(block / width % height), uint32_t(block / width / height)};
        Status status = run_one(kernel, arguments, at, shared_bytes);
        if (status != Ok) return status;
    }
    return is_misaligned ? Misaligned : Ok;
}

}  // namespace

Registration::Registration(const Kernel& kernel) { table().insert({{kernel.name, kernel.warp}, kernel}); }

Operands::Operands(std::initializer_list<Operand> rows) {
    for (const Operand& row : rows) operands().insert({row.argument, row});
}

void misaligned(const void* address, size_t bytes) {
    if (!is_misaligned) fprintf(stderr, "an access of %zu bytes at %p, which is not aligned to them\n", bytes, address);
    is_misaligned = true;
}

}  // namespace simt

using namespace simt;

// Runs a kernel to its end on this thread. 0: done; 1: no such function; 2: sizes that a device would refuse; 3: lanes of a
// block that do not meet, or break a rule of what they share, so that it cannot end; 4: a vector access was not aligned; 5: a
// write behind shared memory.
extern "C" int fascicle_simt_launch(const char* function, const unsigned grid[3], const unsigned block[3],
                                    unsigned shared_bytes, const void* arguments, int warp) {
    const Kernel* kernel = find(function, warp);
    if (kernel == nullptr) return NoSuchFunction;
    Place at{};
    at.grid_size = {grid[0], grid[1], grid[2]};
    at.block_size = {block[0], block[1], block[2]};
    if (!fits(*kernel, at, shared_bytes)) return InvalidLaunch;
    std::vector<uint64_t> copy((kernel->argument_bytes + 7) / 8);
    memcpy(copy.data(), arguments, kernel->argument_bytes);
    return run_grid(*kernel, copy.data(), at, shared_bytes);
}

// Whether the kernel exists, and the size of its argument.
extern "C" int fascicle_simt_has(const char* function, size_t* argument_bytes) {
    const Kernel* kernel = find(function, 32);
    if (kernel != nullptr && argument_bytes != nullptr) *argument_bytes = kernel->argument_bytes;
    return kernel != nullptr;
}

// The offset of a pointer in the kernel's argument, and whether the kernel writes through it. 0 behind the last one.
extern "C" int fascicle_simt_operand(const char* function, size_t index, size_t* offset, int* written) {
    const Kernel* kernel = find(function, 32);
    if (kernel == nullptr) return 0;
    // The namespace differs between the widths of warps.
    std::string argument = kernel->argument;
    auto [row, end] = operands().equal_range(argument.substr(argument.rfind(':') + 1));
    for (; row != end; ++row) {
        const Operand& operand = row->second;
        if (index >= operand.count) {
            index -= operand.count;
            continue;
        }
        *offset = operand.offset + index * operand.step;
        *written = operand.written;
        return 1;
    }
    return 0;
}
