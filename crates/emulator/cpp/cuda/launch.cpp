// The driver: modules, launches, graphs, and those functions of theirs that HIP does not have.
#include "call.h"

#include "../shared/launch.h"

EXPORT Status cuModuleLoadFatBinary(void** module, const void* image) {
    CALL(Status::InvalidImage, { return load_module(image, module); });
}

EXPORT Status cuGraphUpload(void*, void* handle) {
    CALL(Status::Unknown, {
        StreamRef stream;
        return find_stream(handle, stream);
    });
}
