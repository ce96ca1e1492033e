// A stack of its own for a function, which can leave it at any point and later continue there.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simt {

#if defined(__x86_64__)

// A point to continue from: the top of the stack, which holds the registers that a call must preserve.
struct Context {
    void* top;
};

// Saves the current point in `from` and continues at `to`.
void switch_context(Context& from, Context& to);

// Makes `context` the start of `entry` on `stack`.
void start_context(Context& context, uint8_t* stack, size_t bytes, void (*entry)());

#else

struct Context {
    ucontext_t saved;
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

inline void start_context(Context& context, uint8_t* stack, size_t bytes, void (*entry)()) {
    getcontext(&context.saved);
    context.saved.uc_stack.ss_sp = stack;
    context.saved.uc_stack.ss_size = bytes;
    context.saved.uc_link = nullptr;
    makecontext(&context.saved, entry, 0);
}

#endif

}  // namespace simt
