// Modules, functions and launches. Code objects are not interpreted: a function is looked up by name among the kernels
// that were compiled for the host (libfascicle_simt.so, or the library that FASCICLE_EMULATOR_SIMT names).
#pragma once

#include <string>

#include "stream.h"

namespace emulator {

struct Function {
    struct Operand {
        std::size_t offset;
        bool written;
    };

    std::string name;
    const char* what = nullptr;  // the name, interned
    std::vector<Operand> operands;
    ContextRef context;
    std::size_t argument_bytes = 0;
    std::atomic<unsigned> shared_limit{48 * 1024};
    std::atomic<bool> launched{false};
};

using FunctionRef = std::shared_ptr<Function>;

struct Extent {
    unsigned x, y, z;
};

Status load_module(const void* image, void** module);
Status load_module_file(const char* path, void** module);
Status unload_module(void* module);
Status get_function(const void* module, const char* name, void** function);
Status find_function(const void* function, FunctionRef& found);
// Lets a function use more shared memory than every device offers.
Status allow_shared(const FunctionRef& function, int bytes);

// `arguments` points to the one struct that every kernel takes; it is copied before the call returns.
Status launch(const FunctionRef& function, Extent grid, Extent block, unsigned shared_bytes, const StreamRef& stream,
              const void* arguments);
// The address of the struct from the two ways in which a launch passes it.
Status argument_struct(const Function& function, void** parameters, void** extra, const void** arguments);

long live_modules();

}  // namespace emulator
