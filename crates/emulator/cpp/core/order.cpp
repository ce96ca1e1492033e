#include "order.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "memory.h"
#include "settings.h"

namespace emulator {

namespace {

struct Use {
    std::uint64_t first, end;
    bool writes;
    std::size_t slot;
    std::uint64_t number;  // of the work in its stream
    const char* what;
};

// Beyond this number of uses of an allocation, those that the host knows to be over are dropped.
constexpr std::size_t many = 48;

struct Order {
    std::mutex lock;
    Clock given;                        // the last number of each slot
    std::vector<std::size_t> free;      // slots of destroyed streams
    Clock host;
    std::unordered_map<std::uint64_t, std::vector<Use>> uses;  // by allocation
    std::set<std::string> names;
};

Order& order() {
    static auto* all = new Order;
    return *all;
}

void join(Clock& into, const Clock& from) {
    if (into.size() < from.size()) into.resize(from.size(), 0);
    for (std::size_t slot = 0; slot < from.size(); ++slot) into[slot] = std::max(into[slot], from[slot]);
}

bool knows(const Clock& clock, const Use& use) { return use.slot < clock.size() && clock[use.slot] >= use.number; }

// Drops the uses that the new one stands for: whatever comes after it comes after them.
void replace(std::vector<Use>& uses, const Use& now, const Clock& clock) {
    std::erase_if(uses, [&](const Use& use) {
        const bool covered = use.first >= now.first && use.end <= now.end && (now.writes || !use.writes);
        return covered && knows(clock, use);
    });
    if (uses.size() > many) std::erase_if(uses, [](const Use& use) { return knows(order().host, use); });
    uses.push_back(now);
}

}  // namespace

const char* intern(const char* name) {
    std::lock_guard guard(order().lock);
    return order().names.insert(name).first->c_str();
}

// The work of a new stream counts as queued after all that of the stream that had its slot.
Timeline::Timeline() {
    auto& all = order();
    std::lock_guard guard(all.lock);
    if (all.free.empty()) {
        slot_ = all.given.size();
        all.given.push_back(0);
    } else {
        slot_ = all.free.back();
        all.free.pop_back();
    }
    clock_.resize(slot_ + 1, 0);
    clock_[slot_] = all.given[slot_];
}

Timeline::~Timeline() {
    std::lock_guard guard(order().lock);
    order().free.push_back(slot_);
}

Clock Timeline::now() const {
    std::lock_guard guard(order().lock);
    return clock_;
}

void Timeline::follow(const Clock& clock) {
    std::lock_guard guard(order().lock);
    join(clock_, clock);
}

bool Timeline::touch(const Touches& touches, const char* what) {
    if (!settings().races || touches.empty()) return true;
    std::vector<std::pair<Region, Touch>> found;
    for (const auto& touch : touches) {
        Region region;
        if (touch.bytes > 0 && find_region(touch.address, region) && region.live) found.emplace_back(region, touch);
    }
    auto& all = order();
    std::lock_guard guard(all.lock);
    join(clock_, all.host);
    const auto before = clock_;
    const auto number = clock_[slot_] = ++all.given[slot_];
    bool ordered = true;
    for (const auto& [region, touch] : found) {
        auto& uses = all.uses[region.address];
        const Use now{touch.address, touch.address + touch.bytes, touch.writes, slot_, number, what};
        for (const auto& use : uses) {
            const bool conflicts = (use.writes || now.writes) && use.first < now.end && now.first < use.end;
            if (!conflicts || use.slot == slot_ || knows(before, use)) continue;
            ordered = misuse(false, "%s %s byte %lu of the %zu bytes at %#lx, and nothing orders it after %s, which %s it", what,
                             now.writes ? "writes" : "reads", std::max(now.first, use.first) - region.address, region.bytes,
                             region.address, use.what, use.writes ? "writes" : "reads");
            break;
        }
        replace(uses, now, before);
    }
    return ordered;
}

void observe(const Clock& clock) {
    std::lock_guard guard(order().lock);
    join(order().host, clock);
}

bool forget_accesses(std::uint64_t allocation) {
    auto& all = order();
    std::lock_guard guard(all.lock);
    const auto found = all.uses.find(allocation);
    if (found == all.uses.end()) return true;
    const auto uses = std::move(found->second);
    all.uses.erase(found);
    for (const auto& use : uses)
        if (!knows(all.host, use))
            return misuse(false, "the memory at %#lx is freed, and nothing orders that after %s, which %s it", allocation, use.what,
                          use.writes ? "writes" : "reads");
    return true;
}

}  // namespace emulator
