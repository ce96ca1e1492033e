// Asynchronous copies to shared memory, which arrive as late as the kernel allows.
#include "block.h"

namespace simt {

void Block::copy_later(const LateCopy& copy) {
    LaneState& lane = lanes_[current_];
    memset(copy.to, 0xff, copy.bytes);
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
            memcpy(copy.to, copy.from, copy.bytes);
        } else {
            memset(copy.to, 0, copy.bytes);
        }
        hide(lane, copy);
    }
    lane.copies.erase(lane.copies.begin(), lane.copies.begin() + ptrdiff_t(done));
}

// Products see it only once its lane has published it. Of many, the latest are known: kernels without products publish none.
void Block::hide(LaneState& lane, const LateCopy& copy) {
    constexpr size_t MOST = 64;
    if (lane.hidden.size() == MOST) {
        lane.hidden.erase(lane.hidden.begin(), lane.hidden.begin() + MOST / 2);
        num_hidden_ -= MOST / 2;
    }
    lane.hidden.push_back({copy.to, copy.bytes});
    num_hidden_++;
}

void Block::publish_copies(size_t pending) {
    await_copies(pending);
    LaneState& lane = lanes_[current_];
    num_hidden_ -= lane.hidden.size();
    lane.hidden.clear();
}

void Block::product_reads(const void* at, size_t bytes) {
    if (num_hidden_ == 0) return;
    auto from = static_cast<const uint8_t*>(at);
    for (uint32_t i = 0; i < lanes_.size(); i++) {
        for (const Hidden& hidden : lanes_[i].hidden) {
            if (from < hidden.at + hidden.bytes && hidden.at < from + bytes) read_hidden_of_ = i;
        }
    }
}

}  // namespace simt
