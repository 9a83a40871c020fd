#include "vipl/granted/granted_stack.h"

#include "kagent/stack/stack_all.h"

namespace viaduct {

template class BasicStack<GrantedPlatform>;

}  // namespace viaduct
