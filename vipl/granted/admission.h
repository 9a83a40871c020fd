// Letting forked processes take part in a granted session (attached_processes.h): the first process
// does for them what the agent does for hosted programs.
//
// Both functions are called by the agent monitor.
#ifndef VIADUCT_VIPL_GRANTED_ADMISSION_H
#define VIADUCT_VIPL_GRANTED_ADMISSION_H

#include <cstdint>

#include "vipl/granted/driver.h"

namespace viaduct::vipl::admission {

// Something can be read on the link of an attached process, or the link has ended.
void hear(Driver& driver, std::uint32_t attached_process) VIADUCT_REQUIRES(registry::g_lock);

// Ends the links of all attached processes.
void end_all(Driver& driver) VIADUCT_REQUIRES(registry::g_lock);

}  // namespace viaduct::vipl::admission

#endif
