// What a stack is built for. The agent's works on any port and environment and is ordinary C++; the
// one in libvipl (VIADUCT_GRANTED_STACK) is bound to one kind of each, which it calls directly, and
// needs the C library alone. The two have different names, so both may end up in one program.
#ifndef VIADUCT_KAGENT_STACK_STACK_BINDING_H
#define VIADUCT_KAGENT_STACK_STACK_BINDING_H

#ifdef VIADUCT_GRANTED_STACK

#include "vipl/granted/granted_environment.h"
#include "xdp/grant/granted_port.h"

#define VIADUCT_STACK_BUILD granted_stack
namespace viaduct {
inline namespace granted_stack {
using StackPort = GrantedPort;
using StackEnvironment = GrantedEnvironment;
}  // namespace granted_stack
}  // namespace viaduct

#else

#include "kagent/stack/environment.h"
#include "xdp/port.h"

#define VIADUCT_STACK_BUILD hosted_stack
namespace viaduct {
inline namespace hosted_stack {
using StackPort = Port;
using StackEnvironment = Environment;
}  // namespace hosted_stack
}  // namespace viaduct

#endif

#endif
