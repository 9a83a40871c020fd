// Proof that a request comes from the program whose memory the agent opens.
//
// At each exec() the kernel gives a program 16 random bytes of its own (AT_RANDOM). The program sends a hash of
// them; the agent reads them out of the memory that it has opened. Another program that the process has become
// since, a set-user-ID one say, has others, which no user can read there. Children of a fork share them: they are
// the same program.
#ifndef VIADUCT_KAGENT_STACK_PROGRAM_PROOF_H
#define VIADUCT_KAGENT_STACK_PROGRAM_PROOF_H

#include <cstring>

#include "kagent/contract/control.h"
#include "kagent/stack/siphash.h"

namespace viaduct {

inline constexpr std::size_t kProgramSecretBytes = 16;

// `secret`: those bytes. They seed the C library's guards, so it is a hash of which nothing of them can be told.
inline control::Proof prove_program(const void* secret) {
  std::uint64_t key[2];
  static_assert(sizeof key == kProgramSecretBytes);
  std::memcpy(key, secret, sizeof key);
  control::Proof out;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::uint64_t words[] = {0x6f6f72702064656eu, i};
    out.words[i] = siphash(key, words);
  }
  return out;
}

}  // namespace viaduct

#endif
