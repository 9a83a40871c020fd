// Making the interface takes privileges; carrying its packets takes none.
#ifndef VIADUCT_VIPL_LANEVI_PRIVILEGES_H
#define VIADUCT_VIPL_LANEVI_PRIVILEGES_H

#include <string>

namespace viaduct::lanevi {

// Becomes this user, with its group and no others, unless the name is empty; gives all capabilities
// up, for programs that it would run too. Throws Failure.
void drop_privileges(const std::string& user);

}  // namespace viaduct::lanevi

#endif
