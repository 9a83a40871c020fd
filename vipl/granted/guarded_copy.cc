#include "vipl/granted/guarded_copy.h"

#include <signal.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "vipl/process/sys.h"

namespace viaduct::vipl::guarded {

#if defined(__x86_64__)

// bool (void* to, const void* from, size_t bytes). All that can fault lies between the two labels. The last byte is stored
// last, as programs watch it. No string instruction copies long data: some processors take 20 times as long for one where `to`
// lies up to 32 bytes behind `from`, multiples of a page aside.
asm(R"(
  .pushsection .text
  .p2align 4
  .hidden viaduct_guarded_copy
  .globl viaduct_guarded_copy
  .type viaduct_guarded_copy, @function
viaduct_guarded_copy:
  .cfi_startproc
  cmpq $64, %rdx
  jbe 2f
  leaq (%rdi,%rdx), %rax
  leaq -1(%rdx), %rcx
  andl $63, %ecx
  incq %rcx
  .hidden viaduct_guarded_begin
  .globl viaduct_guarded_begin
viaduct_guarded_begin:
  movdqu (%rsi), %xmm0
  movdqu 16(%rsi), %xmm1
  movdqu 32(%rsi), %xmm2
  movdqu 48(%rsi), %xmm3
  movdqu %xmm0, (%rdi)
  movdqu %xmm1, 16(%rdi)
  movdqu %xmm2, 32(%rdi)
  movdqu %xmm3, 48(%rdi)
  addq %rcx, %rsi
  addq %rcx, %rdi
0:
  movdqu (%rsi), %xmm0
  movdqu 16(%rsi), %xmm1
  movdqu 32(%rsi), %xmm2
  movdqu 48(%rsi), %xmm3
  movdqu %xmm0, (%rdi)
  movdqu %xmm1, 16(%rdi)
  movdqu %xmm2, 32(%rdi)
  movdqu %xmm3, 48(%rdi)
  addq $64, %rsi
  addq $64, %rdi
  cmpq %rax, %rdi
  jne 0b
  movl $1, %eax
  ret
1:
  movq %rdx, %rcx
  rep movsb
  movl $1, %eax
  ret
2:
  cmpq $32, %rdx
  ja 5f
  cmpq $16, %rdx
  ja 3f
  cmpq $8, %rdx
  ja 6f
  je 8f
  cmpq $4, %rdx
  je 4f
  cmpq $2, %rdx
  jne 1b
  movzwl (%rsi), %eax
  movw %ax, (%rdi)
  jmp 9f
5:
  movdqu (%rsi), %xmm0
  movdqu 16(%rsi), %xmm1
  movdqu -32(%rsi,%rdx), %xmm2
  movdqu -16(%rsi,%rdx), %xmm3
  movdqu %xmm0, (%rdi)
  movdqu %xmm1, 16(%rdi)
  movdqu %xmm2, -32(%rdi,%rdx)
  movdqu %xmm3, -16(%rdi,%rdx)
  jmp 9f
3:
  movdqu (%rsi), %xmm0
  movdqu -16(%rsi,%rdx), %xmm1
  movdqu %xmm0, (%rdi)
  movdqu %xmm1, -16(%rdi,%rdx)
  jmp 9f
6:
  movq (%rsi), %rax
  movq -8(%rsi,%rdx), %rcx
  movq %rax, (%rdi)
  movq %rcx, -8(%rdi,%rdx)
  jmp 9f
4:
  movl (%rsi), %eax
  movl %eax, (%rdi)
  jmp 9f
8:
  movq (%rsi), %rax
  movq %rax, (%rdi)
9:
  movl $1, %eax
  ret
  .hidden viaduct_guarded_end
  .globl viaduct_guarded_end
viaduct_guarded_end:
  .hidden viaduct_guarded_failed
  .globl viaduct_guarded_failed
viaduct_guarded_failed:
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size viaduct_guarded_copy, .-viaduct_guarded_copy
  .popsection
)");

extern "C" {
bool viaduct_guarded_copy(void* to, const void* from, std::size_t bytes);
extern const char viaduct_guarded_begin[], viaduct_guarded_end[], viaduct_guarded_failed[];
}

namespace {

struct sigaction g_before[2];  // SIGSEGV, SIGBUS

void on_fault(int signal, siginfo_t* info, void* context) {
  auto& at = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const auto where = static_cast<std::uintptr_t>(at);
  if (where >= reinterpret_cast<std::uintptr_t>(viaduct_guarded_begin) &&
      where < reinterpret_cast<std::uintptr_t>(viaduct_guarded_end)) {
    at = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(viaduct_guarded_failed));
    return;
  }
  const struct sigaction& before = g_before[signal == SIGBUS];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else if (info->si_code > 0) {
    // The instruction is tried again, and ends the process as it would have without this handler.
    sigaction(signal, &before, nullptr);
  } else if (before.sa_handler == SIG_DFL) {
    // A signal that a process has sent does not come again, so it is raised anew.
    sigaction(signal, &before, nullptr);
    raise(signal);
  }
}

std::atomic<int> g_prepared;  // 0: no, 1: a thread is at it, 2: yes

}  // namespace

void prepare() {
  if (g_prepared.load(std::memory_order_acquire) == 2) return;
  int no = 0;
  if (!g_prepared.compare_exchange_strong(no, 1)) {
    while (g_prepared.load(std::memory_order_acquire) != 2) continue;
    return;
  }
  struct sigaction ours = {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART;
  sigaction(SIGSEGV, &ours, &g_before[0]);
  sigaction(SIGBUS, &ours, &g_before[1]);
  g_prepared.store(2, std::memory_order_release);
}

bool copy(void* to, const void* from, std::size_t bytes) {
  return viaduct_guarded_copy(to, from, bytes);
}

#else

// For processors without such code the kernel copies, and sees the faults.
void prepare() {}

bool copy(void* to, const void* from, std::size_t bytes) {
  const iovec here = {to, bytes}, there = {const_cast<void*>(from), bytes};
  const long copied =
      ::syscall(SYS_process_vm_readv, sys::process(), &here, 1ul, &there, 1ul, 0ul);
  return copied == static_cast<long>(bytes);
}

#endif

}  // namespace viaduct::vipl::guarded
