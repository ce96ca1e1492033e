#include "module.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "graph.h"
#include "image.h"
#include "memory.h"
#include "settings.h"

namespace emulator {

#ifdef EMULATOR_HIP
constexpr int warp = 64;
constexpr unsigned most_shared = 64 * 1024;
#else
constexpr int warp = 32;
constexpr unsigned most_shared = 227 * 1024;
#endif

struct Module {
    ContextRef context;
    std::mutex lock;
    std::vector<void*> functions;
};

static Table<Module>& modules() {
    static auto* table = new Table<Module>("module", 6);
    return *table;
}

static Table<Function>& functions() {
    static auto* table = new Table<Function>("function", 7);
    return *table;
}

// The kernels compiled for the host.
struct Kernels {
    using Has = int (*)(const char*, std::size_t*);
    // The next pointer in a kernel's argument; false behind the last.
    using Operand = int (*)(const char*, std::size_t, std::size_t*, int*);
    using Launch = int (*)(const char*, const unsigned[3], const unsigned[3], unsigned, const void*, int);
    Has has = nullptr;
    Launch launch = nullptr;
    Operand operand = nullptr;

    Kernels();
};

static std::string kernels_path() {
    if (const char* path = variable("FASCICLE_EMULATOR_SIMT")) return path;
    Dl_info info;
    if (!dladdr(reinterpret_cast<const void*>(&kernels_path), &info)) return "libfascicle_simt.so";
    const std::string self = info.dli_fname;
    return self.substr(0, self.rfind('/') + 1) + "libfascicle_simt.so";
}

Kernels::Kernels() {
    const auto path = kernels_path();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        say("the kernels for the host did not open: %s", dlerror());
        return;
    }
    has = reinterpret_cast<Has>(dlsym(library, "fascicle_simt_has"));
    operand = reinterpret_cast<Operand>(dlsym(library, "fascicle_simt_operand"));
    launch = reinterpret_cast<Launch>(dlsym(library, "fascicle_simt_launch"));
}

static const Kernels& kernels() {
    static const auto* opened = new Kernels;
    return *opened;
}

Status load_module(const void* image, void** module) {
    if (!image || !module) return Status::InvalidValue;
    TRY(check_uncaptured());
    TRY(check_image(image, settings().architecture));
    auto made = std::make_shared<Module>();
    TRY(current(made->context));
    if (settings().loads_wait) wait_unseen(made->context);
    *module = modules().insert<void*>(made);
    return Status::Success;
}

Status load_module_file(const char* path, void** module) {
    struct stat status;
    if (!path || stat(path, &status) != 0) return misuse(Status::NotFound, "no file %s", path ? path : "(null)");
    if (status.st_size == 0) return misuse(Status::InvalidImage, "%s is empty", path);
    std::ifstream file(path, std::ios::binary);
    const std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return load_module(image.c_str(), module);
}

Status unload_module(void* module) {
    TRY(check_uncaptured());
    const auto found = modules().remove(module);
    if (!found) return Status::InvalidHandle;
    if (settings().loads_wait) wait_unseen(found->context);
    for (void* function : found->functions) functions().remove(function);
    return Status::Success;
}

Status get_function(const void* module, const char* name, void** function) {
    if (!name || !function) return Status::InvalidValue;
    const auto found = modules().find(module);
    if (!found) return Status::InvalidHandle;
    auto made = std::make_shared<Function>();
    if (!kernels().has || !kernels().has(name, &made->argument_bytes))
        return misuse(Status::NotFound, "no kernel %s was compiled for the host", name);
    made->name = name;
    made->what = intern(name);
    std::size_t offset = 0;
    int written = 0;
    for (std::size_t index = 0; kernels().operand && kernels().operand(name, index, &offset, &written); ++index)
        made->operands.push_back({offset, written != 0});
    made->context = found->context;
    *function = functions().insert<void*>(made);
    std::lock_guard guard(found->lock);
    found->functions.push_back(*function);
    return Status::Success;
}

Status find_function(const void* function, FunctionRef& found) {
    found = functions().find(function);
    return found ? Status::Success : Status::InvalidHandle;
}

Status allow_shared(const FunctionRef& function, int bytes) {
    if (bytes < 0 || static_cast<unsigned>(bytes) > most_shared) return Status::InvalidValue;
    function->shared_limit.store(std::max(48u * 1024, static_cast<unsigned>(bytes)));
    return Status::Success;
}

// The CUDA driver ends the list of extras with 0, HIP with 3.
Status argument_struct(const Function& function, void** parameters, void** extra, const void** arguments) {
    if (parameters && extra) return misuse(Status::InvalidValue, "both kernelParams and extra are given");
    *arguments = parameters ? parameters[0] : nullptr;
    for (auto each = extra; each && each[0] && each[0] != reinterpret_cast<void*>(3); each += 2) {
        if (each[0] == reinterpret_cast<void*>(1)) *arguments = each[1];
        if (each[0] != reinterpret_cast<void*>(2) || *static_cast<std::size_t*>(each[1]) == function.argument_bytes) continue;
        return misuse(Status::InvalidValue, "%s: an argument of %zu bytes, the kernel takes %zu", function.name.c_str(),
                      *static_cast<std::size_t*>(each[1]), function.argument_bytes);
    }
    return *arguments ? Status::Success : misuse(Status::InvalidValue, "a kernel without its argument");
}

// Every word of the argument that is an address of ours must be live and within reach.
static Status check_arguments(const Function& function, const ContextRef& context, const std::vector<char>& arguments) {
    for (std::size_t offset = 0; offset + 8 <= arguments.size(); offset += 8) {
        std::uint64_t word;
        std::memcpy(&word, arguments.data() + offset, 8);
        Region region;
        if (!find_region(word, region) || region.place == Place::Registered) continue;
        if (!region.live)
            return misuse(Status::IllegalAddress, "%s: byte %zu of its argument is an address in freed memory, %#lx",
                          function.name.c_str(), offset, word);
        if (region.place == Place::Device && !reaches(context, region.device))
            return misuse(Status::IllegalAddress, "%s: byte %zu of its argument is memory of device %d, it runs on device %d",
                          function.name.c_str(), offset, region.device, context->device);
    }
    return Status::Success;
}

// A launch does not tell how much of its operands a kernel accesses; the first byte of each stands for them.
static Touches touches_of(const Function& function, const std::vector<char>& arguments) {
    Touches touches;
    for (const auto& [offset, written] : function.operands) {
        std::uint64_t address = 0;
        if (offset + sizeof address <= arguments.size()) std::memcpy(&address, arguments.data() + offset, sizeof address);
        if (address != 0) touches.push_back({address, 1, written});
    }
    return touches;
}

static Status check_extents(const Function& function, Extent grid, Extent block, unsigned shared_bytes) {
    const auto threads = std::uint64_t(block.x) * block.y * block.z;
    if (threads == 0 || std::uint64_t(grid.x) * grid.y * grid.z == 0 || threads > 1024 || grid.y > 65535 || grid.z > 65535)
        return misuse(Status::InvalidValue, "%s: grid %u x %u x %u of blocks of %u x %u x %u threads", function.name.c_str(),
                      grid.x, grid.y, grid.z, block.x, block.y, block.z);
    const auto limit = warp == 64 ? most_shared : function.shared_limit.load();
    if (shared_bytes <= limit) return Status::Success;
    return misuse(Status::InvalidValue, "%s: %u bytes of shared memory, %u are allowed", function.name.c_str(), shared_bytes, limit);
}

// What the kernels' library returns for a vector access that is not aligned, and for a write behind shared memory.
constexpr int misaligned = 4, overrun = 5;

static Status run(const Function& function, Extent grid, Extent block, unsigned shared_bytes, const void* arguments) {
    const unsigned blocks[3] = {grid.x, grid.y, grid.z};
    const unsigned threads[3] = {block.x, block.y, block.z};
    const int code = kernels().launch(function.name.c_str(), blocks, threads, shared_bytes, arguments, warp);
    if (code != 0) say("%s: the host's launch gave %d", function.name.c_str(), code);
    if (code == misaligned) return Status::MisalignedAddress;
    if (code == overrun) return Status::IllegalAddress;
    return code == 0 ? Status::Success : Status::LaunchFailed;
}

// Whether a kernel is loaded when it is first launched, and not with its module.
static bool loads_lazily() {
#ifdef EMULATOR_HIP
    return false;
#else
    const char* value = variable("CUDA_MODULE_LOADING");
    return !value || std::string_view(value) != "EAGER";
#endif
}

Status launch(const FunctionRef& function, Extent grid, Extent block, unsigned shared_bytes, const StreamRef& stream,
              const void* arguments) {
    TRY(check_extents(*function, grid, block, shared_bytes));
    if (function->context != stream->context)
        return misuse(Status::InvalidHandle, "%s was loaded on device %d, the stream is of device %d", function->name.c_str(),
                      function->context->device, stream->context->device);
    if (settings().loads_wait && loads_lazily() && !function->launched.exchange(true)) wait_unseen(stream->context);
    const auto* first = static_cast<const char*>(arguments);
    std::vector<char> copy(first, first + function->argument_bytes);
    const auto fault = check_arguments(*function, stream->context, copy);
    auto touches = touches_of(*function, copy);
    stream->submit([=, copy = std::move(copy)] {
        return failed(fault) ? fault : run(*function, grid, block, shared_bytes, copy.data());
    }, std::move(touches), function->what);
    return Status::Success;
}

long live_modules() { return modules().size(); }

}  // namespace emulator
