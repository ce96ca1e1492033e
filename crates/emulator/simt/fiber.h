// A stack that a function runs on and can leave at any point, to be entered again where it left.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simt {

#if defined(__x86_64__)

// A place to go on from: the stack's top, below which lie the registers that a call must keep.
struct Context {
    void* top;
};

// Leaves the place `from` and goes on at `to`.
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
