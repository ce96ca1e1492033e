#include "memory.h"

#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <map>

#include "graph.h"
#include "settings.h"

namespace emulator {

constexpr std::size_t page = 4096;
constexpr unsigned char poison = 0xff;   // a NaN in every floating type
constexpr unsigned char fence = poison;  // between the end of an allocation and the end of its last page

static std::size_t in_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

struct Entry {
    Region region;
    bool leaving = false;  // given back in stream order, and the stream has not come there yet
};

struct Memory {
    std::mutex lock;
    std::map<std::uint64_t, Entry> entries;
    std::vector<std::size_t> used;
    std::deque<std::uint64_t> quarantine;
    std::size_t quarantine_bytes = 0;
    std::uint64_t start = 0, next = 0, end = 0;

    Memory() : used(settings().devices, 0) { reserve(); }
    void reserve();
    Entry* holder(std::uint64_t address);
    void quarantine_add(Entry& entry);
    void quarantine_drop();
};

static Memory& memory() {
    static auto* all = new Memory;
    return *all;
}

void Memory::reserve() {
    for (std::size_t bytes = 8ull << 40; bytes >= 1ull << 32; bytes /= 2) {
        void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) continue;
        start = next = reinterpret_cast<std::uint64_t>(range);
        end = start + bytes;
        return;
    }
}

Entry* Memory::holder(std::uint64_t address) {
    auto after = entries.upper_bound(address);
    if (after == entries.begin()) return nullptr;
    auto& entry = std::prev(after)->second;
    return address - entry.region.address < std::max<std::size_t>(entry.region.bytes, 1) ? &entry : nullptr;
}

static bool all_are(const unsigned char* bytes, std::size_t count, unsigned char value) {
    return count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

static unsigned char* at(std::uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

// A guard page stays between neighbours, so a far overrun ends the program where it happens.
static Status take(const ContextRef& context, Place place, std::size_t bytes, std::uint64_t* address) {
    if (!address || bytes == 0) return Status::InvalidValue;
    auto& all = memory();
    std::lock_guard guard(all.lock);
    const auto room = in_pages(bytes);
    const bool counted = place == Place::Device;
    if (counted && all.used[context->device] + bytes > settings().memory_bytes) return Status::OutOfMemory;
    if (room + page > all.end - all.next) return Status::OutOfMemory;
    if (mprotect(at(all.next), room, PROT_READ | PROT_WRITE) != 0) return Status::OutOfMemory;
    *address = all.next;
    all.next += room + page;
    if (settings().poison) std::memset(at(*address), poison, bytes);
    std::memset(at(*address) + bytes, fence, room - bytes);
    all.entries[*address] = {{*address, bytes, context->device, place, true}};
    if (counted) all.used[context->device] += bytes;
    return Status::Success;
}

Status allocate(const ContextRef& context, Place place, std::size_t bytes, std::uint64_t* address) {
    TRY(check_uncaptured());
    if (place == Place::Device ? settings().allocations_wait : settings().pins_wait) wait_unseen(context);
    return take(context, place, bytes, address);
}

Status allocate_in_order(const StreamRef& stream, std::size_t bytes, std::uint64_t* address) {
    return take(stream->context, Place::Device, bytes, address);
}

void Memory::quarantine_add(Entry& entry) {
    auto& region = entry.region;
    region.live = false;
    if (!all_are(at(region.address) + region.bytes, in_pages(region.bytes) - region.bytes, fence))
        misuse(Status::IllegalAddress, "something was written behind the %zu bytes at %#lx", region.bytes, region.address);
    if (region.place == Place::Device) used[region.device] -= region.bytes;
    if (settings().poison) std::memset(at(region.address), poison, region.bytes);
    quarantine.push_back(region.address);
    quarantine_bytes += in_pages(region.bytes);
    while (quarantine_bytes > settings().quarantine_bytes) quarantine_drop();
}

void Memory::quarantine_drop() {
    const auto& region = entries[quarantine.front()].region;
    quarantine.pop_front();
    const auto room = in_pages(region.bytes);
    quarantine_bytes -= room;
    if (settings().poison && !all_are(at(region.address), region.bytes, poison))
        misuse(Status::IllegalAddress, "something was written into %zu bytes at %#lx after they were freed", region.bytes,
               region.address);
    mmap(at(region.address), room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static const char* name_of(Place place) { return place == Place::Device ? "device memory" : "pinned host memory"; }

static Status owned(Memory& all, std::uint64_t address, Place place, Entry*& entry) {
    const auto found = all.entries.find(address);
    if (found == all.entries.end()) return misuse(Status::InvalidValue, "%#lx is not the start of an allocation", address);
    entry = &found->second;
    if (!entry->region.live || entry->leaving) return misuse(Status::InvalidValue, "%#lx is freed twice", address);
    if (entry->region.place != place)
        return misuse(Status::InvalidValue, "%#lx is %s, freed as %s", address, name_of(entry->region.place), name_of(place));
    return Status::Success;
}

// What a call waits for that names no context.
static void wait_for_current(bool asked) {
    const auto context = asked ? current_or_null() : nullptr;
    if (context) wait_unseen(context);
}

Status release(std::uint64_t address, Place place) {
    TRY(check_uncaptured());
    wait_for_current(settings().releases_wait);
    auto& all = memory();
    std::lock_guard guard(all.lock);
    Entry* entry = nullptr;
    TRY(owned(all, address, place, entry));
    forget_accesses(address);
    all.quarantine_add(*entry);
    return Status::Success;
}

Status release_in_order(std::uint64_t address, const StreamRef& stream) {
    auto& all = memory();
    std::size_t bytes = 0;
    {
        std::lock_guard guard(all.lock);
        Entry* entry = nullptr;
        TRY(owned(all, address, Place::Device, entry));
        entry->leaving = true;
        bytes = entry->region.bytes;
    }
    stream->touch({{address, bytes, true}}, current_symbol());
    stream->submit([address] {
        auto& all = memory();
        std::lock_guard guard(all.lock);
        all.quarantine_add(all.entries[address]);
        return Status::Success;
    });
    return Status::Success;
}

Status register_host(void* address, std::size_t bytes) {
    if (!address || bytes == 0) return Status::InvalidValue;
    TRY(check_uncaptured());
    wait_for_current(settings().pins_wait);
    auto& all = memory();
    std::lock_guard guard(all.lock);
    const auto number = reinterpret_cast<std::uint64_t>(address);
    if (all.holder(number)) return misuse(Status::InvalidValue, "%p is registered already", address);
    all.entries[number] = {{number, bytes, 0, Place::Registered, true}};
    return Status::Success;
}

Status unregister_host(void* address) {
    TRY(check_uncaptured());
    wait_for_current(settings().releases_wait);
    auto& all = memory();
    std::lock_guard guard(all.lock);
    Entry* entry = nullptr;
    TRY(owned(all, reinterpret_cast<std::uint64_t>(address), Place::Registered, entry));
    all.entries.erase(reinterpret_cast<std::uint64_t>(address));
    return Status::Success;
}

bool find_region(std::uint64_t address, Region& region) {
    auto& all = memory();
    std::lock_guard guard(all.lock);
    const auto* entry = all.holder(address);
    if (entry) region = entry->region;
    return entry != nullptr;
}

Status check_range(const ContextRef& context, std::uint64_t address, std::size_t bytes, bool host, const char* what) {
    if (bytes == 0) return Status::Success;
    auto& all = memory();
    std::lock_guard guard(all.lock);
    const auto* entry = all.holder(address);
    const bool ours = address >= all.start && address < all.end;
    if (!entry && !ours && host && address != 0) return Status::Success;
    if (!entry) return misuse(Status::InvalidValue, "%s %#lx is in no allocation", what, address);
    const auto& region = entry->region;
    if (!region.live || entry->leaving) return misuse(Status::InvalidValue, "%s %#lx is in freed memory", what, address);
    if (bytes > region.bytes - (address - region.address))
        return misuse(Status::InvalidValue, "%s: %zu bytes from %#lx, the allocation ends after %zu", what, bytes, address,
                      region.bytes - static_cast<std::size_t>(address - region.address));
    if (context && region.place == Place::Device && !reaches(context, region.device))
        return misuse(Status::InvalidValue, "%s is memory of device %d, which device %d does not reach", what, region.device,
                      context->device);
    return Status::Success;
}

bool is_freed(std::uint64_t address) {
    Region region;
    return find_region(address, region) && !region.live;
}

void memory_of(int device, std::size_t& free_bytes, std::size_t& total_bytes) {
    auto& all = memory();
    std::lock_guard guard(all.lock);
    total_bytes = settings().memory_bytes;
    free_bytes = total_bytes - all.used[device];
}

static long count(Place place, std::size_t* bytes) {
    auto& all = memory();
    std::lock_guard guard(all.lock);
    long number = 0;
    for (const auto& [address, entry] : all.entries) {
        if (!entry.region.live || entry.region.place != place) continue;
        ++number;
        if (bytes) *bytes += entry.region.bytes;
    }
    return number;
}

long live_allocations() { return count(Place::Device, nullptr); }
long live_pinned() { return count(Place::Pinned, nullptr) + count(Place::Registered, nullptr); }

std::size_t live_bytes() {
    std::size_t bytes = 0;
    count(Place::Device, &bytes);
    return bytes;
}

}  // namespace emulator
