// One block of a kernel whose lanes meet.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "fiber.h"
#include "groups.h"
#include "order.h"
#include "simt.h"

namespace simt {

// Whether a lane can run, and what it waits for if not: its warp, the block, a phase, a named barrier, its products.
enum class State { Ready, AtWarp, AtBlock, AtPhase, AtNamed, AtProducts, Done };

// A phase: the barrier's address and the parity. A named barrier: its number, and how often it had let lanes pass. Products:
// how many may remain.
struct Wait {
    uint32_t of, value;
    bool operator==(const Wait&) const = default;
};

// A copy that a lane has started and not waited for.
struct LateCopy {
    uint8_t* to;
    const uint8_t* from;
    uint32_t bytes;
    bool exists;
    uint32_t group;
};

// What a copy has brought that products do not see.
struct Hidden {
    const uint8_t* at;
    uint32_t bytes;
};

// A product that a lane has started and not waited for, and what the sum was.
struct LateProduct {
    Product product;
    std::array<float, MOST_HELD> sum;
};

struct LaneState {
    Context context;
    Place place;
    State state;
    Wait wait;
    uint32_t shows;  // how often it has shown something
    uint32_t groups;  // of copies, ended so far
    std::vector<LateCopy> copies;
    std::vector<Hidden> hidden;
    std::vector<LateProduct> products;
    bool orders_products;  // since it last waited for some
};

// A barrier in shared memory.
struct Phases {
    uint16_t mark, arrivals, missing, phase;
};

struct NamedBarrier {
    uint32_t arrived, passes;
};

// The stacks and lanes of a host thread, kept from block to block.
class Block {
public:
    ~Block();

    // Runs the block at `place.block` to its end. Returns false if its lanes do not meet where they should.
    bool run(const Kernel& kernel, const void* arguments, const Place& place);

    void meet_block() { leave(State::AtBlock, {}); }
    const uint8_t* show(const void* value, size_t bytes);

    void copy_later(const LateCopy& copy);
    void end_copies() { lanes_[current_].groups++; }
    void await_copies(size_t pending);
    void publish_copies(size_t pending);

    void begin_products() { lanes_[current_].orders_products = true; }
    void start_product(const Product& product);
    void await_products(uint32_t pending);
    void product_reads(const void* at, size_t bytes);

    void init_barrier(uint32_t at, uint32_t arrivals);
    void arrive(uint32_t at);
    void await_phase(uint32_t at, uint32_t parity);
    void meet_named(uint32_t index, uint32_t threads);
    void await_named(uint32_t index, uint32_t threads);

    // The function at the start of the running lane's stack.
    void enter();

private:
    void reserve(uint32_t threads);
    void start(const Place& place);
    bool run_warp(uint32_t first);
    bool settle(uint32_t first, bool& done);
    bool can_continue(const LaneState& lane);
    bool all_are(State state) const;
    bool report_waits();
    bool named_barriers_are_empty();
    bool end_product(uint32_t first);
    void hide(LaneState& lane, const LateCopy& copy);
    Phases* phases(uint32_t at);
    NamedBarrier& named(uint32_t index);
    void leave(State state, Wait wait);
    // Reports a mistake of the kernel's, which ends the block. `fail` is for the running lane.
    bool refuse(const char* format, ...) __attribute__((format(printf, 2, 3)));
    template <class... Values>
    void fail(const char* format, Values... values) {
        failed_ = true;
        refuse(format, values...);
        leave(State::Done, {});
    }

    static constexpr size_t STACK_BYTES = 256 << 10;

    Context scheduler_;
    std::vector<LaneState> lanes_;
    std::vector<uint8_t> shown_;
    std::array<NamedBarrier, 16> named_;
    uint8_t* stacks_ = nullptr;
    size_t reserved_ = 0;
    const Kernel* kernel_ = nullptr;
    const void* arguments_ = nullptr;
    uint32_t current_ = 0;
    size_t num_hidden_ = 0;  // of all lanes
    std::optional<uint32_t> read_hidden_of_;  // a lane of whose copies a product has read one
    uint64_t turn_ = 0;  // of the order of lanes
    bool failed_ = false;
};

}  // namespace simt
