// Opaque handles that are never reused, so that every use of a destroyed one is detected.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "symbols.h"

namespace emulator {

// The live objects of one kind. A handle is no valid address: dereferencing it crashes at once.
template <class Object>
class Table {
   public:
    Table(const char* kind, unsigned tag) : kind_(kind), base_(0x00fe000000000000ull | std::uint64_t(tag) << 40) {}

    template <class Handle>
    Handle insert(std::shared_ptr<Object> object) {
        std::lock_guard guard(lock_);
        const std::uint64_t handle = base_ + 16 * ++given_;
        live_.emplace(handle, std::move(object));
        return reinterpret_cast<Handle>(handle);
    }

    // The object of a handle; null, with a report, if it is destroyed or never existed.
    std::shared_ptr<Object> find(const void* handle) {
        std::lock_guard guard(lock_);
        const auto found = live_.find(reinterpret_cast<std::uint64_t>(handle));
        if (found != live_.end()) return found->second;
        report(handle);
        return nullptr;
    }

    std::shared_ptr<Object> remove(const void* handle) {
        std::lock_guard guard(lock_);
        const auto found = live_.find(reinterpret_cast<std::uint64_t>(handle));
        if (found == live_.end()) {
            report(handle);
            return nullptr;
        }
        auto object = std::move(found->second);
        live_.erase(found);
        return object;
    }

    long size() {
        std::lock_guard guard(lock_);
        return static_cast<long>(live_.size());
    }

    std::vector<std::shared_ptr<Object>> all() {
        std::lock_guard guard(lock_);
        std::vector<std::shared_ptr<Object>> objects;
        for (const auto& [handle, object] : live_) objects.push_back(object);
        return objects;
    }

   private:
    void report(const void* handle) const {
        const auto number = reinterpret_cast<std::uint64_t>(handle);
        const bool was = number > base_ && number <= base_ + 16 * given_ && number % 16 == 0;
        misuse(Status::InvalidHandle, "%s %p %s", kind_, handle, was ? "is already destroyed" : "was never created");
    }

    const char* kind_;
    std::uint64_t base_;
    std::uint64_t given_ = 0;
    std::mutex lock_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Object>> live_;
};

}  // namespace emulator
