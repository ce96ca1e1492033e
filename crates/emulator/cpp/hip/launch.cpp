// HIP: modules, launches, graphs, and those functions of theirs that the driver does not have.
#include "call.h"

#include "../shared/launch.h"

EXPORT Status hipGraphInstantiate(void** executable, void* graph, void**, char*, std::size_t) {
    CALL(Status::OutOfMemory, { return instantiate_graph(graph, executable); });
}
