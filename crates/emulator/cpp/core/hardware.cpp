#include "hardware.h"

#include <algorithm>

#include "settings.h"

namespace emulator {

HardwareQueueRef HardwareQueues::take(int priority) {
    if (settings().queues == 0) return nullptr;
    std::lock_guard guard(lock_);
    auto& queues = by_priority_[priority];
    while (queues.size() < settings().queues) queues.push_back(std::make_shared<HardwareQueue>());
    const auto least = *std::min_element(queues.begin(), queues.end(),
                                         [](const auto& a, const auto& b) { return a->streams < b->streams; });
    ++least->streams;
    return least;
}

void HardwareQueues::give_back(const HardwareQueueRef& queue) {
    std::lock_guard guard(lock_);
    if (queue) --queue->streams;
}

long Residency::launch() {
    std::lock_guard guard(lock_);
    return ++launched_;
}

bool Residency::enter(long place, const std::function<bool()>& leaves) {
    const int room = static_cast<int>(settings().resident);
    if (room == 0) return true;
    std::unique_lock guard(lock_);
    const auto own = waiting_.insert(place);
    auto left = false;
    while (!left && (running_ >= room || own != waiting_.begin())) {
        changed_.wait_for(guard, std::chrono::milliseconds(5));
        guard.unlock();
        left = leaves();
        guard.lock();
    }
    waiting_.erase(own);
    if (!left) ++running_;
    changed_.notify_all();
    return !left;
}

void Residency::leave() {
    if (settings().resident == 0) return;
    std::lock_guard guard(lock_);
    --running_;
    changed_.notify_all();
}

}  // namespace emulator
