// The completion of a piece of work in a stream.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace emulator {

class Ticket {
   public:
    using Time = std::chrono::steady_clock::time_point;

    void complete() {
        std::lock_guard guard(lock_);
        done_ = true;
        when_ = std::chrono::steady_clock::now();
        changed_.notify_all();
    }

    void wait() {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [this] { return done_; });
    }

    bool done() {
        std::lock_guard guard(lock_);
        return done_;
    }

    // When it was completed; meaningful once it is done.
    Time when() {
        std::lock_guard guard(lock_);
        return when_;
    }

   private:
    std::mutex lock_;
    std::condition_variable changed_;
    bool done_ = false;
    Time when_;
};

using TicketRef = std::shared_ptr<Ticket>;

}  // namespace emulator
