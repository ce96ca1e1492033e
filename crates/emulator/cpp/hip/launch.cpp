// HIP: modules, launches, graphs.
#include "../core/graph.h"
#include "../core/module.h"
#include "call.h"

using namespace emulator;

EXPORT Status hipModuleLoadData(void** module, const void* image) {
    CALL(Status::InvalidImage, { return load_module(image, module); });
}

EXPORT Status hipModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
    CALL(Status::InvalidImage, { return load_module(image, module); });
}

EXPORT Status hipModuleLoad(void** module, const char* path) {
    CALL(Status::InvalidImage, { return load_module_file(path, module); });
}

EXPORT Status hipModuleUnload(void* module) { RELEASE({ return unload_module(module); }); }

EXPORT Status hipModuleGetFunction(void** function, void* module, const char* name) {
    CALL(Status::NotFound, { return get_function(module, name, function); });
}

EXPORT Status hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, void* handle, void** parameters,
                             void** extra) {
    CALL(Status::LaunchOutOfResources, {
        FunctionRef found;
        StreamRef stream;
        const void* arguments = nullptr;
        TRY(find_function(function, found));
        TRY(find_own_stream(handle, stream));
        TRY(argument_struct(parameters, extra, &arguments));
        return launch(found, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, arguments);
    });
}

EXPORT Status hipStreamBeginCapture(void* handle, int mode) {
    CALL(Status::CaptureUnsupported, {
        if (mode < 0 || mode > 2) return Status::InvalidValue;
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return begin_capture(stream);
    });
}

EXPORT Status hipStreamEndCapture(void* handle, void** graph) {
    CALL(Status::CaptureInvalidated, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return end_capture(stream, graph);
    });
}

EXPORT Status hipStreamIsCapturing(void* handle, int* state) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        const auto capture = stream->capture();
        GIVE(state, !capture ? 0 : capture->invalid ? 2 : 1);
        return Status::Success;
    });
}

EXPORT Status hipThreadExchangeStreamCaptureMode(int* mode) {
    CALL(Status::Unknown, { return mode ? Status::Success : Status::InvalidValue; });
}

EXPORT Status hipGraphInstantiate(void** executable, void* graph, void**, char*, std::size_t) {
    CALL(Status::OutOfMemory, { return instantiate_graph(graph, executable); });
}

EXPORT Status hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    CALL(Status::OutOfMemory, { return instantiate_graph(graph, executable); });
}

EXPORT Status hipGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
    CALL(Status::Unknown, { return nodes ? Status::NotSupported : graph_nodes(graph, count); });
}

EXPORT Status hipGraphLaunch(void* executable, void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return launch_graph(executable, stream);
    });
}

EXPORT Status hipGraphDestroy(void* graph) { RELEASE({ return destroy_graph(graph); }); }
EXPORT Status hipGraphExecDestroy(void* executable) { RELEASE({ return destroy_executable(executable); }); }
