// Which work is known to run before which, by vector clocks, and the accesses of memory that lack such an order.
//
// A stream's work, an event and the host each know of every stream how many of its pieces of work came before. Work
// knows what its stream and the host knew when it was queued; a wait for an event adds what the event knew; the host
// learns from each wait or query that ends well. The host is one: a wait in one thread orders what all threads queue
// later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

using Clock = std::vector<std::uint64_t>;  // by stream: how many pieces of its work

// Bytes that a piece of work reads or writes.
struct Touch {
    std::uint64_t address;
    std::size_t bytes;
    bool writes;
};

using Touches = std::vector<Touch>;

// A stream's place in the clocks, and what its next work knows.
class Timeline {
   public:
    Timeline();
    ~Timeline();
    Timeline(const Timeline&) = delete;

    // What the work queued so far, and all that it waits for, leaves known.
    Clock now() const;
    // The next work waits for what the clock knows.
    void follow(const Clock& clock);
    // Queues work with these accesses. False if one of them is not ordered after another that it conflicts with: the
    // mistake is reported with `what`, which must be interned, and the other's name.
    bool touch(const Touches& touches, const char* what);

   private:
    std::size_t slot_;
    Clock clock_;
};

// The host has seen that all of this is done.
void observe(const Clock& clock);
// The memory is freed. False if the host has not seen the end of its last uses.
bool forget_accesses(std::uint64_t allocation);
// A name that stays valid.
const char* intern(const char* name);

}  // namespace emulator
