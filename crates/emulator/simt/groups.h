// What a block offers to warpgroups: barriers in shared memory, named barriers, and products that run while the warp goes on.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace simt {

// A product that each lane of a warp has started, of 16 rows. The left operand is a shared tile or lies in the lanes' registers.
struct Product {
    // Adds the product to the sums of a warp's lanes, from the operands as they are now.
    void (*multiply)(const Product* of_lanes);
    const void* left;
    const void* registers;
    const void* right;
    uint32_t row;  // the warp's first of the left tile
    float* sum;    // the lane's elements
    uint32_t held;
    bool adds;  // to what the sum was, not to 0
};

// The most elements that a lane holds of a sum.
constexpr uint32_t MOST_HELD = 64;

// Orders what a lane has done to sums and operands before the products that it starts.
void begin_products();
// Starts a product. It ends when the lane's warp has waited for it. Until then the sum holds NaN, and may not be written.
void start_product(const Product& product);
// Waits until all products but the latest `pending` have ended.
void await_products(uint32_t pending);

// What a product reads of shared memory, while it multiplies: copies that are not published are a mistake.
void product_reads(const void* at, size_t bytes);
// As await_copies(), and makes what the lane has copied visible to products.
void publish_copies(size_t pending);

// A barrier at a shared address. It counts arrivals; the last one ends its phase and begins the next.
void init_barrier(uint32_t at, uint32_t arrivals);
void arrive(uint32_t at);
// Waits until the barrier is in a phase of the other parity.
void await_phase(uint32_t at, uint32_t parity);

// One of the block's barriers that have numbers, 1 to 15: it lets those who wait pass once `threads` have come.
void meet_named(uint32_t index, uint32_t threads);
void await_named(uint32_t index, uint32_t threads);

}  // namespace simt
