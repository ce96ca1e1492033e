// Barriers for some of a block's warps: those in shared memory, and those that have numbers.
#include "block.h"

namespace simt {

namespace {

constexpr uint16_t MARK = 0x6d62;  // of an initialised barrier
constexpr uint32_t MOST_ARRIVALS = 0xffff;

}  // namespace

Phases* Block::phases(uint32_t at) {
    if (at % sizeof(Phases) != 0 || at < SHARED_START) fail("a barrier at shared address %u", at);
    return reinterpret_cast<Phases*>(lanes_[0].place.shared + (at - SHARED_START));
}

void Block::init_barrier(uint32_t at, uint32_t arrivals) {
    if (arrivals == 0 || arrivals > MOST_ARRIVALS) fail("a barrier of %u arrivals", arrivals);
    *phases(at) = {MARK, uint16_t(arrivals), uint16_t(arrivals), 0};
}

void Block::arrive(uint32_t at) {
    Phases& barrier = *phases(at);
    if (barrier.mark != MARK) fail("lane %u arrives at shared address %u, where no barrier is", current_, at);
    if (--barrier.missing > 0) return;
    barrier.missing = barrier.arrivals;
    barrier.phase ^= 1;
}

void Block::await_phase(uint32_t at, uint32_t parity) {
    if (phases(at)->mark != MARK) fail("lane %u waits at shared address %u, where no barrier is", current_, at);
    leave(State::AtPhase, {at, parity});
}

NamedBarrier& Block::named(uint32_t index) {
    if (index == 0 || index >= named_.size()) fail("a barrier with number %u, the numbers are 1 to 15", index);
    return named_[index];
}

void Block::meet_named(uint32_t index, uint32_t threads) {
    NamedBarrier& barrier = named(index);
    if (++barrier.arrived < threads) return;
    barrier.arrived = 0;
    barrier.passes++;
}

void Block::await_named(uint32_t index, uint32_t threads) {
    uint32_t passes = named(index).passes;
    meet_named(index, threads);
    leave(State::AtNamed, {index, passes});
}

// Whether a warp's lanes can run on; products are the block's to end.
bool Block::can_continue(const LaneState& lane) {
    switch (lane.state) {
        case State::AtPhase: {
            const Phases& barrier = *phases(lane.wait.of);
            return barrier.mark == MARK && barrier.phase != lane.wait.value;
        }
        case State::AtNamed: return named_[lane.wait.of].passes != lane.wait.value;
        default: return lane.state == State::Ready;
    }
}

// At the end of a block.
bool Block::named_barriers_are_empty() {
    for (uint32_t index = 0; index < named_.size(); index++) {
        uint32_t arrived = named_[index].arrived;
        if (arrived > 0) return refuse("%u threads meet barrier %u, at which no others wait", arrived, index);
    }
    return true;
}

// When no warp can continue: what they wait for.
bool Block::report_waits() {
    bool blocks = false;
    for (const LaneState& lane : lanes_) blocks = blocks || lane.state == State::AtPhase || lane.state == State::AtNamed;
    for (uint32_t i = 0; i < lanes_.size() && !blocks; i++) {
        if (lanes_[i].state != State::AtBlock) return refuse("a barrier that lane %u does not come to", i);
    }
    refuse("no warp can continue");
    for (uint32_t i = 0; i < lanes_.size(); i += kernel_->warp) {
        const LaneState& lane = lanes_[i];
        uint32_t warp = i / kernel_->warp, of = lane.wait.of, value = lane.wait.value;
        if (lane.state == State::AtPhase) refuse("warp %u waits for the phase of parity %u at shared address %u", warp, value, of);
        if (lane.state == State::AtNamed) refuse("warp %u waits at barrier %u", warp, of);
        if (lane.state == State::AtBlock) refuse("warp %u waits for the block", warp);
    }
    return false;
}

}  // namespace simt
