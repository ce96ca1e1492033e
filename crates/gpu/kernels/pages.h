// Keys and values in pages; see hal::kernel::pages.
#pragma once

#include "loops.h"

namespace fascicle {

// Tokens of a page.
constexpr u32 PAGE_TOKENS = 64;

struct PagesParams {
    const void* slots;
    void* keys;  // tokens x width
    void* values;
    void* key_pages;  // pages x width x PAGE_TOKENS
    void* value_pages;
    u64 tokens;
    u64 width;
    u64 num_slots;
};

// Where an element of a slot's keys lies: beside those of the neighbouring tokens.
FASCICLE_DEVICE u64 key_at(u64 width, u64 slot, u64 column) {
    return (slot / PAGE_TOKENS * width + column) * PAGE_TOKENS + slot % PAGE_TOKENS;
}

template <class T>
FASCICLE_DEVICE void store_pages(const PagesParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.tokens, p.width, [&](u64 token, u64 column, u64 left) {
        u64 slot = static_cast<const u32*>(p.slots)[token], from = token * p.width + column;
        if (slot >= p.num_slots) return;
        auto values = load<N>(static_cast<const T*>(p.values) + from, left);
        store<N>(static_cast<T*>(p.value_pages) + slot * p.width + column, values, left);
        auto keys = load<N>(static_cast<const T*>(p.keys) + from, left);
        T* to = static_cast<T*>(p.key_pages) + key_at(p.width, slot, column);
        FASCICLE_UNROLL
        for (u32 i = 0; i < N; i++) {
            if (i < left) to[i * PAGE_TOKENS] = keys.at[i];
        }
    });
}

template <class T>
FASCICLE_DEVICE void load_pages(const PagesParams& p) {
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.tokens, p.width, [&](u64 token, u64 column, u64 left) {
        u64 slot = static_cast<const u32*>(p.slots)[token], to = token * p.width + column;
        bool exists = slot < p.num_slots;
        Pack<T, N> keys{}, values{};
        const T* from = static_cast<const T*>(p.key_pages) + key_at(p.width, slot, column);
        FASCICLE_UNROLL
        for (u32 i = 0; i < N; i++) {
            if (exists && i < left) keys.at[i] = from[i * PAGE_TOKENS];
        }
        if (exists) values = load<N>(static_cast<const T*>(p.value_pages) + slot * p.width + column, left);
        store<N>(static_cast<T*>(p.keys) + to, keys, left);
        store<N>(static_cast<T*>(p.values) + to, values, left);
    });
}

}  // namespace fascicle

#define FASCICLE_PAGES(suffix, T)                                                                                            \
    FASCICLE_INDEPENDENT(fascicle_store_pages_##suffix, fascicle::PagesParams, 256) { fascicle::store_pages<T>(p); }         \
    FASCICLE_INDEPENDENT(fascicle_load_pages_##suffix, fascicle::PagesParams, 256) { fascicle::load_pages<T>(p); }
FASCICLE_FLOATS(FASCICLE_PAGES)
