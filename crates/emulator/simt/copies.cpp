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
    }
    lane.copies.erase(lane.copies.begin(), lane.copies.begin() + ptrdiff_t(done));
}

}  // namespace simt
