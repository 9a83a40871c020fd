// `sovia sockets`: the sockets of running programs, and why each that has no lane has none.
#ifndef VIADUCT_SOVIA_LAUNCHER_SOCKETS_H
#define VIADUCT_SOVIA_LAUNCHER_SOCKETS_H

#include <ostream>
#include <vector>

namespace viaduct::sovia::launcher {

struct SocketsRequest {
  std::vector<int> processes;  // none: all that can be seen
  bool json = false;
};

// Returns 0, or 1 if there was nothing to show. Throws std::runtime_error if a process that was asked for can't be
// shown.
int show_sockets(const SocketsRequest& request, std::ostream& out);

}  // namespace viaduct::sovia::launcher

#endif
