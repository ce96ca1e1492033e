// The order in which the lanes of a block run: warp by warp, each until its lanes wait for other warps or are done. Products end
// when no other warp can continue, one warp's at a time: what overwrites their operands too early comes first.
#include "block.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

namespace simt {

__thread Place place __attribute__((tls_model("initial-exec")));

namespace {

thread_local Block block;

void enter() { block.enter(); }

}  // namespace

void meet_block() { block.meet_block(); }

const uint8_t* show(const void* value, size_t bytes) { return block.show(value, bytes); }

void copy_later(void* to, const void* from, uint32_t bytes, bool exists) {
    block.copy_later({static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), bytes, exists, 0});
}
void end_copies() { block.end_copies(); }
void await_copies(size_t pending) { block.await_copies(pending); }
void publish_copies(size_t pending) { block.publish_copies(pending); }

void begin_products() { block.begin_products(); }
void start_product(const Product& product) { block.start_product(product); }
void await_products(uint32_t pending) { block.await_products(pending); }
void product_reads(const void* at, size_t bytes) { block.product_reads(at, bytes); }

void init_barrier(uint32_t at, uint32_t arrivals) { block.init_barrier(at, arrivals); }
void arrive(uint32_t at) { block.arrive(at); }
void await_phase(uint32_t at, uint32_t parity) { block.await_phase(at, parity); }
void meet_named(uint32_t index, uint32_t threads) { block.meet_named(index, threads); }
void await_named(uint32_t index, uint32_t threads) { block.await_named(index, threads); }

bool run_block(const Kernel& kernel, const void* arguments, const Place& place) {
    return block.run(kernel, arguments, place);
}

Block::~Block() {
    if (stacks_ != nullptr) munmap(stacks_, reserved_ * STACK_BYTES);
}

void Block::reserve(uint32_t threads) {
    lanes_.resize(threads);
    shown_.resize(2 * threads * SHOWN_BYTES);
    if (threads <= reserved_) return;
    if (stacks_ != nullptr) munmap(stacks_, reserved_ * STACK_BYTES);
    void* memory = mmap(nullptr, threads * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks_ = memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
    reserved_ = stacks_ == nullptr ? 0 : threads;
}

void Block::start(const Place& place) {
    for (uint32_t i = 0; i < lanes_.size(); i++) {
        LaneState& lane = lanes_[i];
        lane.place = place;
        lane.place.linear = i;
        lane.place.thread.x = i % place.block_size.x;
        lane.place.thread.y = i / place.block_size.x % place.block_size.y;
        lane.place.thread.z = i / place.block_size.x / place.block_size.y;
        lane.state = State::Ready;
        lane.shows = 0;
        lane.groups = 0;
        lane.copies.clear();
        lane.hidden.clear();
        lane.products.clear();
        lane.orders_products = false;
        start_context(lane.context, stacks_ + i * STACK_BYTES, STACK_BYTES, simt::enter);
    }
}

bool Block::run(const Kernel& kernel, const void* arguments, const Place& place) {
    kernel_ = &kernel;
    arguments_ = arguments;
    turn_ = 0;
    failed_ = false;
    num_hidden_ = 0;
    read_hidden_of_ = {};
    named_ = {};
    reserve(place.block_size.x * place.block_size.y * place.block_size.z);
    if (reserved_ < lanes_.size()) return false;
    start(place);
    while (!all_are(State::Done)) {
        const Shuffle warps(lanes_.size() / kernel.warp, turn_++);
        bool ran = false;
        std::optional<uint32_t> with_products;
        for (uint32_t i = 0; i < lanes_.size() / kernel.warp; i++) {
            uint32_t first = uint32_t(warps[i]) * kernel.warp;
            if (lanes_[first].state == State::AtProducts) with_products = first;
            if (!can_continue(lanes_[first])) continue;
            if (!run_warp(first)) return false;
            ran = true;
        }
        if (!ran && with_products) {
            if (!run_warp(*with_products)) return false;
            ran = true;
        }
        if (ran) continue;
        if (!all_are(State::AtBlock)) return report_waits();
        for (LaneState& lane : lanes_) lane.state = State::Ready;
    }
    return named_barriers_are_empty();
}

bool Block::all_are(State state) const {
    for (const LaneState& lane : lanes_) {
        if (lane.state != state) return false;
    }
    return true;
}

// Runs the warp of lane `first` until its lanes wait for other warps or are done. Products that it has waited for end first.
bool Block::run_warp(uint32_t first) {
    const LaneState& of_warp = lanes_[first];
    while (of_warp.state == State::AtProducts && of_warp.products.size() > of_warp.wait.of) {
        if (!end_product(first)) return false;
    }
    bool settled = false;
    while (!settled) {
        const Shuffle lanes(kernel_->warp, turn_++);
        for (uint32_t each = 0; each < kernel_->warp; each++) {
            uint32_t i = first + uint32_t(lanes[each]);
            current_ = i;
            simt::place = lanes_[i].place;
            switch_context(scheduler_, lanes_[i].context);
            if (failed_) return false;
        }
        if (!settle(first, settled)) return false;
    }
    return true;
}

// After each lane of a warp has run once: all must wait for the same. If they wait for each other, they continue.
bool Block::settle(uint32_t first, bool& settled) {
    const LaneState& of_warp = lanes_[first];
    for (uint32_t i = first; i < first + kernel_->warp; i++) {
        const LaneState& lane = lanes_[i];
        if (lane.state != of_warp.state || lane.wait != of_warp.wait)
            return refuse("lanes %u and %u of a warp do not meet", first, i);
    }
    settled = of_warp.state != State::AtWarp;
    return true;
}

void Block::leave(State state, Wait wait) {
    LaneState& lane = lanes_[current_];
    lane.state = state;
    lane.wait = wait;
    switch_context(lane.context, scheduler_);
}

bool Block::refuse(const char* format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%s: ", kernel_->name);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    return false;
}

const uint8_t* Block::show(const void* value, size_t bytes) {
    LaneState& lane = lanes_[current_];
    uint8_t* half = shown_.data() + (lane.shows++ % 2) * lanes_.size() * SHOWN_BYTES;
    memcpy(half + current_ * SHOWN_BYTES, value, bytes);
    uint32_t first = current_ - current_ % kernel_->warp;
    leave(State::AtWarp, {});
    return half + first * SHOWN_BYTES;
}

void Block::enter() {
    kernel_->run(arguments_);
    if (!lanes_[current_].products.empty()) fail("lane %u ends before its products", current_);
    leave(State::Done, {});
}

}  // namespace simt
