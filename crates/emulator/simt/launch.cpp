// The library's interface: looks a kernel up by name, and runs it.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "block.h"

namespace simt {

bool run_block(const Kernel& kernel, const void* arguments, const Place& place);

namespace {

enum Status { Ok = 0, NoSuchFunction = 1, InvalidLaunch = 2, LanesDiverged = 3 };

// Shared memory that a block may use without a request for more.
constexpr unsigned SHARED_BYTES = 48 << 10;

using Table = std::map<std::pair<std::string, uint32_t>, Kernel>;

Table& table() {
    static Table kernels;
    return kernels;
}

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
           shared_bytes <= SHARED_BYTES;
}

bool run_in_a_loop(const Kernel& kernel, const void* arguments, const Place& at) {
    place = at;
    for (place.thread.z = 0; place.thread.z < at.block_size.z; place.thread.z++) {
        for (place.thread.y = 0; place.thread.y < at.block_size.y; place.thread.y++) {
            for (place.thread.x = 0; place.thread.x < at.block_size.x; place.thread.x++) kernel.run(arguments);
        }
    }
    return true;
}

// Shared memory is full of NaN when a block starts, so that a kernel that reads what it has not written shows.
bool run_one(const Kernel& kernel, const void* arguments, const Place& at, unsigned shared_bytes) {
    if (!kernel.meets) return run_in_a_loop(kernel, arguments, at);
    memset(at.shared, 0xff, shared_bytes);
    return run_block(kernel, arguments, at);
}

Status run_grid(const Kernel& kernel, const void* arguments, Place at, unsigned shared_bytes) {
    std::vector<uint64_t> shared(SHARED_BYTES / 8 + 2);
    at.shared = reinterpret_cast<uint8_t*>((uintptr_t(shared.data()) + 15) & ~uintptr_t(15));
    for (at.block.z = 0; at.block.z < at.grid_size.z; at.block.z++) {
        for (at.block.y = 0; at.block.y < at.grid_size.y; at.block.y++) {
            for (at.block.x = 0; at.block.x < at.grid_size.x; at.block.x++) {
                if (!run_one(kernel, arguments, at, shared_bytes)) return LanesDiverged;
            }
        }
    }
    return Ok;
}

}  // namespace

Registration::Registration(const Kernel& kernel) { table().insert({{kernel.name, kernel.warp}, kernel}); }

}  // namespace simt

using namespace simt;

// Runs a kernel to its end on this thread. 0: done; 1: no such function; 2: sizes that a device would refuse; 3: the
// lanes of a warp or of a block did not meet.
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
