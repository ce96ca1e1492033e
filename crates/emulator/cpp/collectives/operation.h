// A collective or a message as one rank requests it, and the arithmetic once all ranks have.
#pragma once

#include <string>
#include <vector>

#include "../blas/numbers.h"

namespace emulator {

enum class Kind { AllReduce, Reduce, ReduceScatter, AllGather, Broadcast, Send, Recv };
enum class Reduction { Sum, Product, Max, Min, Average };

struct Operation {
    Kind kind;
    const void* send = nullptr;
    void* recv = nullptr;
    std::size_t count = 0;  // as the call counts: of one rank's piece for AllGather and ReduceScatter
    Type type = Type::F32;
    Reduction reduction = Reduction::Sum;
    int peer = 0;  // root, or the other side of a message
};

// The call in words, for messages: `all_reduce of 12 x f32`.
std::string describe(const Operation& operation);
// Whether two ranks request the same operation.
bool agrees(const Operation& one, const Operation& other);
// The number of elements that a rank of `size` reads and writes.
std::size_t send_count(const Operation& operation, int size);
std::size_t recv_count(const Operation& operation, int size);
bool reads(const Operation& operation, int rank);
bool writes(const Operation& operation, int rank);
// Runs a collective. `ranks` has every rank's call; they agree. Sums add the ranks in order.
void carry_out(const std::vector<Operation>& ranks);

}  // namespace emulator
