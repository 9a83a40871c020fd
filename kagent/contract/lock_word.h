// A word that is a lock (vipl/process/lock.h); 0: free. It may lie in memory that other processes share.
#ifndef VIADUCT_KAGENT_CONTRACT_LOCK_WORD_H
#define VIADUCT_KAGENT_CONTRACT_LOCK_WORD_H

#include <atomic>
#include <cstdint>

#include "xdp/thread_annotations.h"

namespace viaduct {

// A type of its own, as an atomic word is no lock to Clang.
struct VIADUCT_CAPABILITY("lock") LockWord : std::atomic<std::uint32_t> {};
static_assert(sizeof(LockWord) == sizeof(std::uint32_t));

}  // namespace viaduct

#endif
