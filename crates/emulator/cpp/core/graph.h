// Work that is captured once and launched many times.
#pragma once

#include "stream.h"

namespace emulator {

Status begin_capture(const StreamRef& stream, CaptureMode mode);
// The graph is null if the capture failed.
Status end_capture(const StreamRef& stream, void** graph);
// A stream that waits for an event of a capture joins the capture.
Status join_capture(const StreamRef& stream, const CaptureRef& capture, const Stream* recorded_in);

// The capture forbids nothing any more.
void forget(const CaptureRef& capture);
// Sets the mode in which this thread makes its calls, and returns the one before.
CaptureMode exchange_capture_mode(CaptureMode mode);
// Fails if this thread must not wait for a device, query one, or change its memory, because of a capture; the capture
// is then invalid.
Status check_uncaptured();

Status graph_nodes(const void* graph, std::size_t* count);
Status instantiate_graph(const void* graph, void** executable);
Status launch_graph(const void* executable, const StreamRef& stream);
Status destroy_graph(void* graph);
Status destroy_executable(void* executable);

long live_graphs();
long live_executables();

}  // namespace emulator
