#include "symbols.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "settings.h"

namespace emulator {

struct Failure {
    std::string symbol;
    long nth;
    int code;
};

// All symbols called so far and the failures asked for. Never destroyed: stream threads outlive static destructors.
class Symbols {
   public:
    Symbols();
    void add(Symbol* symbol);
    bool fails(Symbol& symbol, int& code);
    void ask(const char* name, long nth, int code);
    long calls(const char* name);
    std::string table();
    void reset();

   private:
    std::mutex lock_;
    std::multimap<std::string, Symbol*> symbols_;
    std::vector<Failure> failures_;
    std::atomic<bool> any_{false};
};

static Symbols& symbols() {
    static auto* all = new Symbols;
    return *all;
}

static void write_counts() {
    FILE* file = std::fopen(variable("FASCICLE_EMULATOR_COUNTS"), "w");
    if (!file) return;
    std::fputs(symbols().table().c_str(), file);
    std::fclose(file);
}

// FASCICLE_EMULATOR_FAIL is symbol:N or symbol:N:code, several separated by commas.
Symbols::Symbols() {
    if (variable("FASCICLE_EMULATOR_COUNTS")) std::atexit(write_counts);
    const char* value = variable("FASCICLE_EMULATOR_FAIL");
    if (!value) return;
    std::string rest(value);
    for (char* save = nullptr, *part = strtok_r(rest.data(), ",", &save); part; part = strtok_r(nullptr, ",", &save)) {
        char name[128];
        long nth = 1;
        int code = -1;
        if (std::sscanf(part, "%127[^:]:%ld:%d", name, &nth, &code) >= 1) ask(name, nth, code);
    }
}

void Symbols::add(Symbol* symbol) {
    std::lock_guard guard(lock_);
    symbols_.emplace(symbol->name(), symbol);
}

bool Symbols::fails(Symbol& symbol, int& code) {
    symbol.calls_.fetch_add(1);
    if (!any_.load()) return false;
    std::lock_guard guard(lock_);
    for (auto failure = failures_.begin(); failure != failures_.end(); ++failure) {
        if (failure->symbol != symbol.name() || --failure->nth > 0) continue;
        code = failure->code;
        failures_.erase(failure);
        any_.store(!failures_.empty());
        return true;
    }
    return false;
}

void Symbols::ask(const char* name, long nth, int code) {
    std::lock_guard guard(lock_);
    failures_.push_back({name, nth, code});
    any_.store(true);
}

long Symbols::calls(const char* name) {
    std::lock_guard guard(lock_);
    long sum = 0;
    const auto [first, last] = symbols_.equal_range(name);
    for (auto each = first; each != last; ++each) sum += each->second->calls();
    return sum;
}

std::string Symbols::table() {
    std::lock_guard guard(lock_);
    std::string text;
    for (const auto& [name, symbol] : symbols_)
        if (symbol->calls() > 0) text += name + " " + std::to_string(symbol->calls()) + "\n";
    return text;
}

void Symbols::reset() {
    std::lock_guard guard(lock_);
    failures_.clear();
    any_.store(false);
    for (const auto& [name, symbol] : symbols_) symbol->calls_.store(0);
}

Symbol::Symbol(const char* name) : name_(name) { symbols().add(this); }
bool Symbol::fails(int& code) { return symbols().fails(*this, code); }
void fail_call(const char* name, long nth, int code) { symbols().ask(name, nth, code); }

static thread_local const char* inside = "a stream";
static std::atomic<long> misuses{0};

const char* current_symbol() { return inside; }
Inside::Inside(const Symbol& symbol) : outer_(inside) { inside = symbol.name(); }
Inside::~Inside() { inside = outer_; }

const char* format_text(const char* format, va_list arguments) {
    static thread_local char text[512];
    std::vsnprintf(text, sizeof text, format, arguments);
    return text;
}

void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::fprintf(stderr, "fascicle emulator: %s\n", format_text(format, arguments));
    va_end(arguments);
}

void count_misuse(const char* text) {
    misuses.fetch_add(1);
    std::fprintf(stderr, "fascicle emulator: %s: %s\n", inside, text);
}

}  // namespace emulator

using namespace emulator;

// For tests: how often `symbol` was called since the start or the last reset.
EXPORT long fascicle_emulator_calls(const char* symbol) { return symbols().calls(symbol); }

// For tests: the `nth` call from now on of `symbol` fails with `code` (negative: the code that fits the call).
EXPORT void fascicle_emulator_fail(const char* symbol, long nth, int code) { fail_call(symbol, nth, code); }

// For tests: resets the counts and the failures that have not happened yet.
EXPORT void fascicle_emulator_reset() { symbols().reset(); }

// For tests: lines `symbol calls`, as many as fit into `size` bytes. Returns the full length.
EXPORT unsigned long fascicle_emulator_counts(char* text, unsigned long size) {
    const auto table = symbols().table();
    if (text && size) {
        std::strncpy(text, table.c_str(), size - 1);
        text[size - 1] = 0;
    }
    return table.size();
}

// For tests: the number of callers' mistakes that were reported on stderr so far.
EXPORT long fascicle_emulator_misuses() { return misuses.load(); }
