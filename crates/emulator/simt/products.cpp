// Products that a warp starts and waits for. They are computed at the end of the wait, when other warps have run.
#include <algorithm>

#include "block.h"

namespace simt {

namespace {

// Lanes of a warp start the same product, each with sums and registers of its own.
bool are_one(const Product& a, const Product& b) {
    return a.multiply == b.multiply && a.left == b.left && a.right == b.right && a.row == b.row;
}

bool is_nan(const Product& product) {
    auto bytes = reinterpret_cast<const uint8_t*>(product.sum);
    return std::all_of(bytes, bytes + product.held * sizeof(float), [](uint8_t byte) { return byte == 0xff; });
}

}  // namespace

void Block::start_product(const Product& product) {
    LaneState& lane = lanes_[current_];
    if (!lane.orders_products) fail("products start without begin_products() since the last await_products()");
    for (const LateProduct& other : lane.products) {
        if (other.product.sum == product.sum) fail("two products of a lane add to one sum at a time");
    }
    LateProduct late{product, {}};
    if (product.adds) std::copy_n(product.sum, product.held, late.sum.begin());
    memset(product.sum, 0xff, product.held * sizeof(float));
    lane.products.push_back(late);
}

void Block::await_products(uint32_t pending) {
    lanes_[current_].orders_products = false;
    leave(State::AtProducts, {pending, 0});
}

// Computes the oldest product of the warp of lane `first`.
bool Block::end_product(uint32_t first) {
    std::vector<Product> of_lanes;
    for (uint32_t i = first; i < first + kernel_->warp; i++) {
        std::vector<LateProduct>& products = lanes_[i].products;
        if (products.empty() || (i > first && !are_one(products[0].product, of_lanes[0])))
            return refuse("lanes %u and %u of a warp start different products", first, i);
        const LateProduct& late = products[0];
        if (!is_nan(late.product)) return refuse("lane %u writes to a sum before await_products()", i);
        std::copy_n(late.sum.begin(), late.product.held, late.product.sum);
        of_lanes.push_back(late.product);
        products.erase(products.begin());
    }
    of_lanes[0].multiply(of_lanes.data());
    if (read_hidden_of_) return refuse("a product reads what lane %u has copied and not published", *read_hidden_of_);
    return true;
}

}  // namespace simt
