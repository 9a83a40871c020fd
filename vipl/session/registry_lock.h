// The lock of the registry: sessions change their state under it, and it comes before all others of the library.
#ifndef VIADUCT_VIPL_SESSION_REGISTRY_LOCK_H
#define VIADUCT_VIPL_SESSION_REGISTRY_LOCK_H

#include "kagent/contract/lock_word.h"

namespace viaduct::vipl::registry {

extern constinit LockWord g_lock;

}  // namespace viaduct::vipl::registry

#endif
