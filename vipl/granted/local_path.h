// The local paths of a granted session (GrantedPort::add_local()): what the agent says of other programs of this host.
//
// All functions are called by the agent monitor.
#ifndef VIADUCT_VIPL_GRANTED_LOCAL_PATH_H
#define VIADUCT_VIPL_GRANTED_LOCAL_PATH_H

#include <cstdint>

#include "vipl/granted/driver.h"
#include "xdp/port.h"

namespace viaduct::vipl::local_path {

// Takes the rings' file over.
void add(Driver& driver, const MacAddress& peer, std::uint64_t program, int file, unsigned end)
    VIADUCT_REQUIRES(registry::g_lock);

// The peer has ended.
void end(Driver& driver, const MacAddress& peer) VIADUCT_REQUIRES(registry::g_lock);

}  // namespace viaduct::vipl::local_path

#endif
