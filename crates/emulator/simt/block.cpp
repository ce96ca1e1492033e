// The order in which the lanes of a block run: warp by warp, each until all its lanes wait at the barrier or are done.
#include "block.h"

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
        start_context(lane.context, stacks_ + i * STACK_BYTES, STACK_BYTES, simt::enter);
    }
}

bool Block::run(const Kernel& kernel, const void* arguments, const Place& place) {
    kernel_ = &kernel;
    arguments_ = arguments;
    reserve(place.block_size.x * place.block_size.y * place.block_size.z);
    if (reserved_ < lanes_.size()) return false;
    start(place);
    while (true) {
        for (uint32_t first = 0; first < lanes_.size(); first += kernel.warp) {
            if (!run_warp(first)) return false;
        }
        if (lanes_[0].state == State::Done) return pass_barrier();
        if (!pass_barrier()) return false;
    }
}

// Runs the warp of lane `first` until its lanes wait at the barrier or are done.
bool Block::run_warp(uint32_t first) {
    bool settled = false;
    while (!settled) {
        for (uint32_t i = first; i < first + kernel_->warp; i++) {
            current_ = i;
            simt::place = lanes_[i].place;
            switch_context(scheduler_, lanes_[i].context);
        }
        if (!settle(first, settled)) return false;
    }
    return true;
}

// After each lane of a warp has run once: all must wait at the same point. If they wait for each other, they continue.
bool Block::settle(uint32_t first, bool& settled) {
    State state = lanes_[first].state;
    for (uint32_t i = first; i < first + kernel_->warp; i++) {
        if (lanes_[i].state != state) {
            fprintf(stderr, "%s: lanes %u and %u of a warp do not meet\n", kernel_->name, first, i);
            return false;
        }
        if (state == State::AtWarp) lanes_[i].state = State::Ready;
    }
    settled = state != State::AtWarp;
    return true;
}

// Lets all lanes continue if all have reached the barrier. If all are done, nothing is left to do.
bool Block::pass_barrier() {
    for (LaneState& lane : lanes_) {
        if (lane.state == lanes_[0].state) continue;
        fprintf(stderr, "%s: a barrier that lane %u does not come to\n", kernel_->name, lane.place.linear);
        return false;
    }
    if (lanes_[0].state == State::Done) return true;
    for (LaneState& lane : lanes_) lane.state = State::Ready;
    return true;
}

void Block::leave(State state) {
    LaneState& lane = lanes_[current_];
    lane.state = state;
    switch_context(lane.context, scheduler_);
}

const uint8_t* Block::show(const void* value, size_t bytes) {
    LaneState& lane = lanes_[current_];
    uint8_t* half = shown_.data() + (lane.shows++ % 2) * lanes_.size() * SHOWN_BYTES;
    memcpy(half + current_ * SHOWN_BYTES, value, bytes);
    uint32_t first = current_ - current_ % kernel_->warp;
    leave(State::AtWarp);
    return half + first * SHOWN_BYTES;
}

void Block::enter() {
    kernel_->run(arguments_);
    leave(State::Done);
}

}  // namespace simt
