// Work that is captured once and launched many times.
#pragma once

#include "stream.h"

namespace emulator {

Status begin_capture(const StreamRef& stream);
// The graph is null if the capture failed.
Status end_capture(const StreamRef& stream, void** graph);
// A stream that waits for an event of a capture joins the capture.
Status join_capture(const StreamRef& stream, const CaptureRef& capture, const Stream* recorded_in);

Status graph_nodes(const void* graph, std::size_t* count);
Status instantiate_graph(const void* graph, void** executable);
Status launch_graph(const void* executable, const StreamRef& stream);
Status destroy_graph(void* graph);
Status destroy_executable(void* executable);

long live_graphs();
long live_executables();

}  // namespace emulator
