// What streams of a device share: hardware queues, and room for collectives that wait for their peers.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "ticket.h"

namespace emulator {

// Work of its streams runs in the order in which it was queued, whichever stream it is of.
struct HardwareQueue {
    std::mutex lock;
    TicketRef last;
    int streams = 0;
};

using HardwareQueueRef = std::shared_ptr<HardwareQueue>;

// The queues of a device, a number of them for each priority.
class HardwareQueues {
   public:
    // The queue with the fewest streams; null where every stream has one of its own.
    HardwareQueueRef take(int priority);
    void give_back(const HardwareQueueRef& queue);

   private:
    std::mutex lock_;
    std::map<int, std::vector<HardwareQueueRef>> by_priority_;
};

// The collectives that run on a device at a time. One that finds no room waits, and holds its stream; those that wait
// begin in the order of their launch.
class Residency {
   public:
    // A collective's place in that order.
    long launch();
    // Waits for room, or until `leaves` is true. False without room.
    bool enter(long place, const std::function<bool()>& leaves);
    void leave();

   private:
    std::mutex lock_;
    std::condition_variable changed_;
    std::multiset<long> waiting_;
    long launched_ = 0;
    int running_ = 0;
};

}  // namespace emulator
