// The agent's stack: works on any port, for the programs that an Environment reaches.
#ifndef VIADUCT_KAGENT_STACK_HOSTED_STACK_H
#define VIADUCT_KAGENT_STACK_HOSTED_STACK_H

#include "kagent/stack/environment.h"
#include "kagent/stack/stack.h"
#include "xdp/bulk_path.h"
#include "xdp/port.h"

namespace viaduct {

struct HostedPlatform {
  using Port = viaduct::Port;
  using BulkPath = viaduct::BulkPath;
  using Environment = viaduct::Environment;
};
using Stack = BasicStack<HostedPlatform>;
extern template class BasicStack<HostedPlatform>;

}  // namespace viaduct

#endif
