// Modules, launches, graphs: the functions that CUDA's driver and HIP have in common, under `NAME(cuda, hip)`.
//
// Included by each vendor's launch.cpp, after its call.h.
#pragma once

#include "../core/graph.h"
#include "../core/module.h"

using namespace emulator;

EXPORT Status NAME(cuModuleLoadData, hipModuleLoadData)(void** module, const void* image) {
    CALL(Status::InvalidImage, { return load_module(image, module); });
}

EXPORT Status NAME(cuModuleLoadDataEx, hipModuleLoadDataEx)(void** module, const void* image, unsigned, int*, void**) {
    CALL(Status::InvalidImage, { return load_module(image, module); });
}

EXPORT Status NAME(cuModuleLoad, hipModuleLoad)(void** module, const char* path) {
    CALL(Status::InvalidImage, { return load_module_file(path, module); });
}

EXPORT Status NAME(cuModuleUnload, hipModuleUnload)(void* module) { RELEASE({ return unload_module(module); }); }

EXPORT Status NAME(cuModuleGetFunction, hipModuleGetFunction)(void** function, void* module, const char* name) {
    CALL(Status::NotFound, { return get_function(module, name, function); });
}

EXPORT Status NAME(cuLaunchKernel, hipModuleLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                                          unsigned block_x, unsigned block_y, unsigned block_z,
                                                          unsigned shared_bytes, void* handle, void** parameters,
                                                          void** extra) {
    CALL(Status::LaunchOutOfResources, {
        FunctionRef found;
        StreamRef stream;
        const void* arguments = nullptr;
        TRY(find_function(function, found));
        TRY(find_own_stream(handle, stream));
        TRY(argument_struct(*found, parameters, extra, &arguments));
        return launch(found, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, arguments);
    });
}

EXPORT Status NAME(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void* handle, int mode) {
    CALL(Status::CaptureUnsupported, {
        if (mode < 0 || mode > 2) return Status::InvalidValue;
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return begin_capture(stream, static_cast<CaptureMode>(mode));
    });
}

EXPORT Status NAME(cuStreamEndCapture, hipStreamEndCapture)(void* handle, void** graph) {
    CALL(Status::CaptureInvalidated, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return end_capture(stream, graph);
    });
}

EXPORT Status NAME(cuStreamIsCapturing, hipStreamIsCapturing)(void* handle, int* state) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        const auto capture = stream->capture();
        GIVE(state, !capture ? 0 : capture->invalid ? 2 : 1);
        return Status::Success;
    });
}

EXPORT Status NAME(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int* mode) {
    CALL(Status::Unknown, {
        if (!mode || *mode < 0 || *mode > 2) return Status::InvalidValue;
        *mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
        return Status::Success;
    });
}

EXPORT Status NAME(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)(void** executable, void* graph, unsigned long long) {
    CALL(Status::OutOfMemory, { return instantiate_graph(graph, executable); });
}

EXPORT Status NAME(cuGraphGetNodes, hipGraphGetNodes)(void* graph, void** nodes, std::size_t* count) {
    CALL(Status::Unknown, { return nodes ? Status::NotSupported : graph_nodes(graph, count); });
}

EXPORT Status NAME(cuGraphLaunch, hipGraphLaunch)(void* executable, void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return launch_graph(executable, stream);
    });
}

EXPORT Status NAME(cuGraphDestroy, hipGraphDestroy)(void* graph) { RELEASE({ return destroy_graph(graph); }); }
EXPORT Status NAME(cuGraphExecDestroy, hipGraphExecDestroy)(void* executable) { RELEASE({ return destroy_executable(executable); }); }
