// Making the interface takes privileges; carrying its packets takes none.
#ifndef VIADUCT_VIPL_LANEVI_PRIVILEGES_H
#define VIADUCT_VIPL_LANEVI_PRIVILEGES_H

#include <string>

namespace viaduct::lanevi {

// Becomes this user, with its group and no others, unless the name is empty. Gives up all capabilities, also for
// programs that this process would run. Throws Failure.
void drop_privileges(const std::string& user);

}  // namespace viaduct::lanevi

#endif
