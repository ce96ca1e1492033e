#include "settings.h"

#include <cstdlib>
#include <cstring>

namespace emulator {

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

static std::uint64_t scale(char suffix) {
    switch (suffix) {
        case 'k': case 'K': return 1ull << 10;
        case 'm': case 'M': return 1ull << 20;
        case 'g': case 'G': return 1ull << 30;
        default: return 1;
    }
}

std::uint64_t quantity(const char* name, std::uint64_t standard) {
    const char* value = variable(name);
    if (!value) return standard;
    char* end = nullptr;
    const auto number = std::strtoull(value, &end, 10);
    return number * scale(*end);
}

static void read_delay(Settings& settings) {
    const char* value = variable("FASCICLE_EMULATOR_DELAY");
    settings.delay = value != nullptr;
    settings.delay_us = 1000;
    if (!value) return;
    char* end = nullptr;
    settings.delay_seed = std::strtoull(value, &end, 10);
    if (*end == ':') settings.delay_us = std::strtoull(end + 1, nullptr, 10);
}

static void read_waits(Settings& settings) {
    const char* value = variable("FASCICLE_EMULATOR_WAITS");
    const auto has = [value](const char* word) { return value && std::strstr(value, word); };
    settings.allocations_wait = has("allocate");
    settings.pins_wait = has("pin");
    settings.releases_wait = has("free");
    settings.loads_wait = has("load");
}

#ifdef EMULATOR_HIP
constexpr const char* queues_variable = "GPU_MAX_HW_QUEUES";
static std::string architecture(const Settings&) {
    const char* name = variable("FASCICLE_EMULATOR_GFX");
    return name ? name : "gfx90a:sramecc+:xnack-";
}
#else
constexpr const char* queues_variable = "CUDA_DEVICE_MAX_CONNECTIONS";
static std::string architecture(const Settings& settings) { return std::to_string(settings.compute_capability); }
#endif

static Settings read() {
    Settings settings{};
    settings.devices = static_cast<int>(quantity("FASCICLE_EMULATOR_DEVICES", 8));
    settings.memory_bytes = quantity("FASCICLE_EMULATOR_MEMORY", 16ull << 30);
    settings.multiprocessors = static_cast<int>(quantity("FASCICLE_EMULATOR_MULTIPROCESSORS", 8));
    settings.compute_capability = static_cast<int>(quantity("FASCICLE_EMULATOR_CAPABILITY", 90));
    settings.architecture = architecture(settings);
    settings.poison = quantity("FASCICLE_EMULATOR_POISON", 1) != 0;
    settings.quarantine_bytes = quantity("FASCICLE_EMULATOR_QUARANTINE", 64ull << 20);
    settings.races = quantity("FASCICLE_EMULATOR_RACES", 1) != 0;
    settings.queues = quantity("FASCICLE_EMULATOR_QUEUES", quantity(queues_variable, 0));
    settings.resident = quantity("FASCICLE_EMULATOR_RESIDENT", 0);
    read_delay(settings);
    read_waits(settings);
    return settings;
}

const Settings& settings() {
    static const Settings read_once = read();
    return read_once;
}

}  // namespace emulator
