// Every exported function passes through here: it is counted, may be made to fail, and may report a caller's mistake.
#pragma once

#include <atomic>
#include <new>

#include "status.h"

namespace emulator {

// One exported function: how often it was called, and which call of it fails.
class Symbol {
   public:
    explicit Symbol(const char* name);
    const char* name() const { return name_; }
    long calls() const { return calls_.load(); }
    // Counts this call. Returns true if it must fail; `code` then holds the requested code, if there is one.
    bool fails(int& code);

   private:
    friend class Symbols;
    const char* name_;
    std::atomic<long> calls_{0};
};

// Makes the `nth` call from now on of `name` (1 is the next) fail with `code`, or with the standard code if it is negative.
void fail_call(const char* name, long nth, int code);

// The name of the exported function that this thread is in; a short text outside of one.
const char* current_symbol();

// Reports a caller's mistake on stderr, counts it, and returns `status`.
template <class Code>
Code misuse(Code status, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Prints a text to stderr in one write.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
void count_misuse(const char* text);
const char* format_text(const char* format, __builtin_va_list arguments);

template <class Code>
Code misuse(Code status, const char* format, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    count_misuse(format_text(format, arguments));
    __builtin_va_end(arguments);
    return status;
}

// Marks this thread as being inside a symbol.
class Inside {
   public:
    explicit Inside(const Symbol& symbol);
    ~Inside();

   private:
    const char* outer_;
};

// Runs a call that acquires or does something. An injected failure replaces the work.
template <class Code, class Body>
Code enter(Symbol& symbol, Code standard, Body body) {
    Inside inside(symbol);
    int code = -1;
    if (symbol.fails(code)) return code < 0 ? standard : static_cast<Code>(code);
    return body();
}

// Runs a call that releases something: it releases first, as a vendor that reports an earlier error would.
template <class Code, class Body>
Code enter_release(Symbol& symbol, Code standard, Body body) {
    Inside inside(symbol);
    int code = -1;
    const bool fails = symbol.fails(code);
    const Code done = body();
    if (!fails) return done;
    return code < 0 ? standard : static_cast<Code>(code);
}

}  // namespace emulator

// Exported with C linkage under the vendor's own name.
#define EXPORT extern "C" __attribute__((visibility("default")))
