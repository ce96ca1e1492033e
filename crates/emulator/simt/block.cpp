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

void copy_later(void* to, const void* from, bool exists) {
    block.copy_later({static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), exists, 0});
}
void end_copies() { block.end_copies(); }
void await_copies(size_t pending) { block.await_copies(pending); }

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
        start_context(lane.context, stacks_ + i * STACK_BYTES, STACK_BYTES, simt::enter);
    }
}

bool Block::run(const Kernel& kernel, const void* arguments, const Place& place) {
    kernel_ = &kernel;
    arguments_ = arguments;
    turn_ = 0;
    reserve(place.block_size.x * place.block_size.y * place.block_size.z);
    if (reserved_ < lanes_.size()) return false;
    start(place);
    while (true) {
        const Shuffle warps(lanes_.size() / kernel.warp, turn_++);
        for (uint32_t i = 0; i < lanes_.size() / kernel.warp; i++) {
            if (!run_warp(uint32_t(warps[i]) * kernel.warp)) return false;
        }
        if (lanes_[0].state == State::Done) return pass_barrier();
        if (!pass_barrier()) return false;
    }
}

// Runs the warp of lane `first` until its lanes wait at the barrier or are done.
bool Block::run_warp(uint32_t first) {
    bool settled = false;
    while (!settled) {
        const Shuffle lanes(kernel_->warp, turn_++);
        for (uint32_t each = 0; each < kernel_->warp; each++) {
            uint32_t i = first + uint32_t(lanes[each]);
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

void Block::copy_later(const LateCopy& copy) {
    LaneState& lane = lanes_[current_];
    memset(copy.to, 0xff, 16);
    lane.copies.push_back(copy);
    lane.copies.back().group = lane.groups;
}

// What is pending in an unfinished group arrives with that group.
void Block::await_copies(size_t pending) {
    LaneState& lane = lanes_[current_];
    size_t done = 0;
    for (; done < lane.copies.size() && lane.copies[done].group + pending < lane.groups; done++) {
        const LateCopy& copy = lane.copies[done];
        if (copy.exists) {
            memcpy(copy.to, copy.from, 16);
        } else {
            memset(copy.to, 0, 16);
        }
    }
    lane.copies.erase(lane.copies.begin(), lane.copies.begin() + ptrdiff_t(done));
}

void Block::enter() {
    kernel_->run(arguments_);
    leave(State::Done);
}

}  // namespace simt
