// Translates between the attributes and addresses of vipl.h and those that travel in command slots.
#ifndef VIADUCT_VIPL_API_ATTRIBUTES_H
#define VIADUCT_VIPL_API_ATTRIBUTES_H

#include "vipl/session/session.h"
#include "vipl/session/session_guard.h"

namespace viaduct::vipl {

// Returns VIP_SUCCESS or VIP_INVALID_PTAG. NULL is tag 0.
VIP_RETURN ptag_in(const SessionGuard& inside, VIP_PROTECTION_HANDLE handle, std::uint32_t& ptag);
VIP_PROTECTION_HANDLE ptag_out(const Session& session, std::uint32_t ptag);

// Returns VIP_SUCCESS or the code of what is wrong.
VIP_RETURN vi_attributes_in(const SessionGuard& inside, const VIP_VI_ATTRIBUTES& given,
                            layout::ViAttributes& attributes);

// The attributes of the peer's VI: tags have no meaning here.
VIP_VI_ATTRIBUTES peer_attributes_out(const layout::ViAttributes& attributes);

// Returns VIP_SUCCESS or the code of what is wrong. NULL stands for no tag and no RDMA.
VIP_RETURN memory_attributes_in(const SessionGuard& inside, const VIP_MEM_ATTRIBUTES* given,
                                layout::MemoryAttributes& attributes);

// False when a length is impossible. The host part is copied, and must be there, if `host` is true.
bool address_in(const Session& session, const VIP_NET_ADDRESS& given, bool host,
                layout::Address& address);

// Writes lengths, host and discriminator.
void address_out(const layout::Address& address, VIP_NET_ADDRESS& out);

// Milliseconds as commands have them.
inline std::uint64_t timeout_in(VIP_ULONG timeout) {
  return timeout >= 0xFFFFFFFFul ? layout::kForever : timeout;
}

}  // namespace viaduct::vipl

#endif
