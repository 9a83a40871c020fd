// A line for people when no agent answers. Programs of libfabric go on to other providers without a word, or end with an
// error that names none; so this one tells, but only where it was asked for by name, and once for a job on a host.
#ifndef VIADUCT_VIPL_FABRIC_MISSING_AGENT_H
#define VIADUCT_VIPL_FABRIC_MISSING_AGENT_H

#include "vipl/vipl.h"

namespace viaduct::fabric {

// Writes the line to standard error, at most once for a process. `code`: what came in place of the NIC's attributes. Any
// thread.
void tell_of_missing_agent(VIP_RETURN code);

}  // namespace viaduct::fabric

#endif
