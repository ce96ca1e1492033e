// NCCL's and RCCL's collectives, messages and groups.
#include "communicator.h"

using namespace emulator;

#define CALL(...)                   \
    static Symbol symbol(__func__); \
    return enter(symbol, Result::System, [&]() -> Result __VA_ARGS__)

// ncclDataType_t.
static bool type_of(int number, Type& type) {
    constexpr Type types[] = {Type::I8, Type::U8, Type::I32, Type::U32, Type::I64, Type::U64, Type::F16, Type::F32, Type::F64, Type::Bf16};
    if (number < 0 || number > 9) return false;
    type = types[number];
    return true;
}

static Result queue(void* communicator, void* stream, Operation operation, int type, int reduction = 0) {
    if (!type_of(type, operation.type)) return misuse(Result::InvalidArgument, "data type %d", type);
    if (reduction < 0 || reduction > 4) return misuse(Result::InvalidArgument, "reduction %d", reduction);
    operation.reduction = static_cast<Reduction>(reduction);
    return queue_operation(communicator, stream, operation);
}

EXPORT Result ncclAllReduce(const void* send, void* recv, std::size_t count, int type, int reduction, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::AllReduce, send, recv, count}, type, reduction); });
}

EXPORT Result ncclReduce(const void* send, void* recv, std::size_t count, int type, int reduction, int root, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::Reduce, send, recv, count, Type::F32, Reduction::Sum, root}, type, reduction); });
}

EXPORT Result ncclReduceScatter(const void* send, void* recv, std::size_t count, int type, int reduction, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::ReduceScatter, send, recv, count}, type, reduction); });
}

EXPORT Result ncclAllGather(const void* send, void* recv, std::size_t count, int type, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::AllGather, send, recv, count}, type); });
}

EXPORT Result ncclBroadcast(const void* send, void* recv, std::size_t count, int type, int root, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::Broadcast, send, recv, count, Type::F32, Reduction::Sum, root}, type); });
}

EXPORT Result ncclBcast(void* buffer, std::size_t count, int type, int root, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::Broadcast, buffer, buffer, count, Type::F32, Reduction::Sum, root}, type); });
}

EXPORT Result ncclSend(const void* send, std::size_t count, int type, int peer, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::Send, send, nullptr, count, Type::F32, Reduction::Sum, peer}, type); });
}

EXPORT Result ncclRecv(void* recv, std::size_t count, int type, int peer, void* communicator, void* stream) {
    CALL({ return queue(communicator, stream, {Kind::Recv, nullptr, recv, count, Type::F32, Reduction::Sum, peer}, type); });
}

EXPORT Result ncclGroupStart() {
    CALL({ return group_start(); });
}

// An injected failure ends the group and drops its calls: they must not become part of the thread's next group.
EXPORT Result ncclGroupEnd() {
    static Symbol symbol(__func__);
    Inside inside(symbol);
    int code = -1;
    if (!symbol.fails(code)) return group_end();
    group_forget();
    return code < 0 ? Result::System : static_cast<Result>(code);
}
