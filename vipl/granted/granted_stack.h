// The stack of a granted session, in the program: bound to one kind of port and environment, which it
// calls directly.
#ifndef VIADUCT_VIPL_GRANTED_GRANTED_STACK_H
#define VIADUCT_VIPL_GRANTED_GRANTED_STACK_H

#include "kagent/stack/stack.h"
#include "vipl/granted/granted_environment.h"
#include "xdp/grant/granted_port.h"

namespace viaduct {

struct GrantedPlatform {
  using Port = GrantedPort;
  using BulkPath = GrantedPort;
  using Environment = GrantedEnvironment;
};
using GrantedStack = BasicStack<GrantedPlatform>;
extern template class BasicStack<GrantedPlatform>;

}  // namespace viaduct

#endif
