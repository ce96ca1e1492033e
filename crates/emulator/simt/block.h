// One block of a kernel whose lanes meet.
#pragma once

#include <vector>

#include "fiber.h"
#include "order.h"
#include "simt.h"

namespace simt {

// Whether a lane can run, and what it waits for if not.
enum class State { Ready, AtWarp, AtBlock, Done };

// A copy that a lane has started and not waited for.
struct LateCopy {
    uint8_t* to;
    const uint8_t* from;
    bool exists;
    uint32_t group;
};

struct LaneState {
    Context context;
    Place place;
    State state;
    uint32_t shows;  // how often it has shown something
    uint32_t groups;  // of copies, ended so far
    std::vector<LateCopy> copies;
};

// The stacks and lanes of a host thread, kept from block to block.
class Block {
public:
    ~Block();

    // Runs the block at `place.block` to its end. Returns false if its lanes do not meet where they should.
    bool run(const Kernel& kernel, const void* arguments, const Place& place);

    void meet_block() { leave(State::AtBlock); }
    const uint8_t* show(const void* value, size_t bytes);

    void copy_later(const LateCopy& copy);
    void end_copies() { lanes_[current_].groups++; }
    void await_copies(size_t pending);

    // The function at the start of the running lane's stack.
    void enter();

private:
    void reserve(uint32_t threads);
    void start(const Place& place);
    bool run_warp(uint32_t first);
    bool settle(uint32_t first, bool& done);
    bool pass_barrier();
    void leave(State state);

    static constexpr size_t STACK_BYTES = 256 << 10;

    Context scheduler_;
    std::vector<LaneState> lanes_;
    std::vector<uint8_t> shown_;
    uint8_t* stacks_ = nullptr;
    size_t reserved_ = 0;
    const Kernel* kernel_ = nullptr;
    const void* arguments_ = nullptr;
    uint32_t current_ = 0;
    uint64_t turn_ = 0;  // of the order of lanes
};

}  // namespace simt
