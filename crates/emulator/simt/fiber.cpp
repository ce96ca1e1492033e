// Switches stacks on x86-64. The C library's functions would ask the kernel for the signal mask at each switch.
#include "fiber.h"

#if defined(__x86_64__)

// Saves rbx, rbp and r12 to r15 on the stack that it leaves, as the System V calling convention demands.
asm(R"(
.text
.globl fascicle_simt_switch
.hidden fascicle_simt_switch
.type fascicle_simt_switch, @function
fascicle_simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size fascicle_simt_switch, .-fascicle_simt_switch
)");

extern "C" void fascicle_simt_switch(void** from, void** to);

namespace simt {

void switch_context(Context& from, Context& to) { fascicle_simt_switch(&from.top, &to.top); }

void start_context(Context& context, uint8_t* stack, size_t bytes, void (*entry)()) {
    uintptr_t end = (uintptr_t(stack) + bytes) & ~uintptr_t(15);
    void** top = reinterpret_cast<void**>(end);
    *--top = nullptr;  // where `entry` would return to; it never does
    *--top = reinterpret_cast<void*>(entry);
    for (int kept = 0; kept < 6; kept++) *--top = nullptr;
    context.top = top;
}

}  // namespace simt

#endif
