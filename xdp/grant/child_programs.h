// The kernel attaches no XDP program to an interface while one is attached to a child of it. So the
// programs of granted ports that an earlier agent has left are taken off for the moment: their
// programs lose frames, as on a full link.
#ifndef VIADUCT_XDP_GRANT_CHILD_PROGRAMS_H
#define VIADUCT_XDP_GRANT_CHILD_PROGRAMS_H

#include <cstdint>
#include <utility>
#include <vector>

#include "xdp/descriptor.h"
#include "xdp/port.h"

namespace viaduct {

class ChildProgramsAside {
 public:
  // Takes the programs off the children of this interface that agents have made. Without CAP_SYS_ADMIN they are off
  // for good: no agent can go on with them then.
  explicit ChildProgramsAside(int lower);
  // Puts them back.
  ~ChildProgramsAside();
  ChildProgramsAside(const ChildProgramsAside&) = delete;
  ChildProgramsAside& operator=(const ChildProgramsAside&) = delete;

 private:
  std::vector<std::pair<int, Descriptor>> programs_;  // by child
};

// The program on a child; empty if there is none. Needs CAP_SYS_ADMIN.
Descriptor child_program(int child);

// Whether a process still has the socket to which this child program gives frames for the address. The program's map
// has the socket until the last process has closed it.
bool has_socket(int program, const MacAddress& address, std::uint16_t ether_type);

// Attaches the program for as long as the child is there. Returns 0, or an error.
int attach_child_program(int child, int program);

}  // namespace viaduct

#endif
