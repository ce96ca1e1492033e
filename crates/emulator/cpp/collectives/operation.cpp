#include "operation.h"

#include <algorithm>
#include <type_traits>

namespace emulator {

static const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::AllReduce: return "all_reduce";
        case Kind::Reduce: return "reduce";
        case Kind::ReduceScatter: return "reduce_scatter";
        case Kind::AllGather: return "all_gather";
        case Kind::Broadcast: return "broadcast";
        case Kind::Send: return "send";
        default: return "recv";
    }
}

static const char* name_of(Type type) {
    switch (type) {
        case Type::F16: return "f16";
        case Type::Bf16: return "bf16";
        case Type::F32: return "f32";
        case Type::F64: return "f64";
        case Type::I8: return "i8";
        case Type::U8: return "u8";
        case Type::I32: return "i32";
        case Type::U32: return "u32";
        case Type::I64: return "i64";
        default: return "u64";
    }
}

static bool has_root(Kind kind) { return kind == Kind::Reduce || kind == Kind::Broadcast; }

std::string describe(const Operation& operation) {
    auto text = std::string(name_of(operation.kind)) + " of " + std::to_string(operation.count) + " x " + name_of(operation.type);
    if (has_root(operation.kind)) text += ", root " + std::to_string(operation.peer);
    if (operation.reduction != Reduction::Sum) text += ", reduction " + std::to_string(static_cast<int>(operation.reduction));
    return text;
}

bool agrees(const Operation& one, const Operation& other) {
    const bool root = !has_root(one.kind) || one.peer == other.peer;
    return one.kind == other.kind && one.count == other.count && one.type == other.type && one.reduction == other.reduction && root;
}

std::size_t send_count(const Operation& operation, int size) {
    return operation.kind == Kind::ReduceScatter ? operation.count * size : operation.count;
}

std::size_t recv_count(const Operation& operation, int size) {
    return operation.kind == Kind::AllGather ? operation.count * size : operation.count;
}

bool reads(const Operation& operation, int rank) {
    return operation.kind != Kind::Recv && (operation.kind != Kind::Broadcast || rank == operation.peer);
}

bool writes(const Operation& operation, int rank) {
    return operation.kind != Kind::Send && (operation.kind != Kind::Reduce || rank == operation.peer);
}

template <class Sum>
static void combine(Reduction reduction, Sum& sum, Sum value) {
    switch (reduction) {
        case Reduction::Product: sum *= value; break;
        case Reduction::Max: sum = std::max(sum, value); break;
        case Reduction::Min: sum = std::min(sum, value); break;
        default: sum += value;
    }
}

// 16-bit numbers are summed in f32 and rounded once.
template <class Element>
static std::vector<char> reduced(const std::vector<Operation>& ranks) {
    using Sum = std::conditional_t<std::is_arithmetic_v<Element>, Element, float>;
    const auto& call = ranks.front();
    const auto count = send_count(call, static_cast<int>(ranks.size()));
    std::vector<Sum> sums(count);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const auto* values = static_cast<const Element*>(ranks[rank].send);
        for (std::size_t index = 0; index < count; ++index) {
            const auto value = static_cast<Sum>(values[index]);
            if (rank == 0) sums[index] = value;
            else combine(call.reduction, sums[index], value);
        }
    }
    if (call.reduction == Reduction::Average)
        for (auto& sum : sums) sum = static_cast<Sum>(sum / static_cast<Sum>(ranks.size()));
    std::vector<char> bytes(count * sizeof(Element));
    auto* elements = reinterpret_cast<Element*>(bytes.data());
    for (std::size_t index = 0; index < count; ++index) elements[index] = static_cast<Element>(sums[index]);
    return bytes;
}

static std::vector<char> gathered(const std::vector<Operation>& ranks) {
    std::vector<char> bytes;
    for (const auto& call : ranks) {
        const auto* first = static_cast<const char*>(call.send);
        bytes.insert(bytes.end(), first, first + call.count * size_of(call.type));
    }
    return bytes;
}

// All ranks finish reading before any rank's memory is written, because calls may be in place.
void carry_out(const std::vector<Operation>& ranks) {
    const auto& call = ranks.front();
    const auto piece = call.count * size_of(call.type);
    std::vector<char> result;
    if (call.kind == Kind::AllGather) {
        result = gathered(ranks);
    } else if (call.kind == Kind::Broadcast) {
        const auto* first = static_cast<const char*>(ranks[call.peer].send);
        result.assign(first, first + piece);
    } else {
        result = with_type(call.type, [&](auto* type) { return reduced<std::remove_pointer_t<decltype(type)>>(ranks); });
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (!writes(call, static_cast<int>(rank))) continue;
        const bool scatter = call.kind == Kind::ReduceScatter;
        std::memcpy(ranks[rank].recv, result.data() + (scatter ? rank * piece : 0), scatter ? piece : result.size());
    }
}

}  // namespace emulator
