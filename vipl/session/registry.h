// Making and unmaking sessions, in this process and in its forked children.
#ifndef VIADUCT_VIPL_SESSION_REGISTRY_H
#define VIADUCT_VIPL_SESSION_REGISTRY_H

#include <cstdint>

#include "vipl/api/api.h"
#include "vipl/session/hello.h"

namespace viaduct::vipl {

struct Session;

namespace registry {

// Makes a session of a hello; takes the hello's descriptors over in any case.
VIP_RETURN open(Hello& hello, Session*& session);

// Has a forked process take part in the session with this key.
VIP_RETURN attach(std::uint32_t number, std::uint32_t key);

// Ends the session with this key. False if there is none.
bool close(std::uint32_t number, std::uint32_t key);

}  // namespace registry

}  // namespace viaduct::vipl

#endif
