// The system calls that the agent may make once it serves, as a seccomp filter.
//
//   what it needs                          goes on as ever
//   the rest                               fails with EPERM: a library that tries something new goes
//                                          another way, or the log shows what is missing
//   what only an intruder would do         ends the agent: namespaces, mounts, modules, tracing of
//   (and every call of another ABI)        processes, ...
//
// The filter is for good, for all threads, and for every program that the agent starts (xdp-guard).
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_SECCOMP_H
#define VIADUCT_KAGENT_AGENT_PROCESS_SECCOMP_H

#include <string>

namespace viaduct {

// Installs the filter, and no_new_privs with it. Returns nothing, or why there is no filter: built without
// libseccomp, or instrumented by a sanitizer, which needs other calls. Throws std::system_error when the kernel
// refuses.
std::string install_seccomp_filter();

}  // namespace viaduct

#endif
