#include "kagent/stack/hosted_stack.h"

#include "kagent/stack/stack_all.h"

namespace viaduct {

template class BasicStack<HostedPlatform>;

}  // namespace viaduct
