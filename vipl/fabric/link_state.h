// State that the parts of a link share.
#ifndef VIADUCT_VIPL_FABRIC_LINK_STATE_H
#define VIADUCT_VIPL_FABRIC_LINK_STATE_H

#include <memory>

#include "vipl/fabric/completion.h"
#include "vipl/fabric/link_memory.h"
#include "vipl/fabric/shared_nic.h"
#include "vipl/fabric/regions.h"

namespace viaduct::fabric {

class Link;

// The user of a link: an endpoint, or the passive endpoint that it came to. Called with the NIC's mutex
// held.
class LinkUser {
 public:
  virtual void on_request(Link& link, const Greeting& greeting) = 0;
  virtual void on_accepted(const void* data, std::size_t bytes) = 0;
  // A connection that was asked for did not come about.
  virtual void on_refused(int error, const void* data, std::size_t bytes) = 0;
  virtual void on_established() = 0;
  virtual void on_ended(Link& link) = 0;
  // `wanted`: the program asked for a completion. Errors are told unless it is `silent`.
  virtual void on_sent(const Completion& completion, bool wanted, bool silent) = 0;
  virtual void on_received(const Completion& completion, bool wanted) = 0;

 protected:
  ~LinkUser() = default;
};

struct LinkState {
  enum Phase : std::uint8_t {
    kIdle, kCalling, kAsked, kGreeting, kRequested, kAnswering, kRefusing, kUp, kDown
  };

  explicit LinkState(SharedNic& the_nic, std::uint32_t most)
      : nic(the_nic.shared_from_this()), transfer_bytes(most), memory(the_nic.handle()) {}

  bool up() const { return phase == kUp; }
  // The address of something in the peer's Shared.
  std::uint64_t peer_range(std::size_t offset) const { return peer_shared + offset; }

  const std::shared_ptr<SharedNic> nic;
  VIP_VI_HANDLE vi = nullptr;
  std::uint32_t transfer_bytes;  // of a message of VIA
  Phase phase = kIdle;
  LinkUser* user = nullptr;
  Regions* regions = nullptr;
  bool strict = false;  // all operations keep their order, reads too
  LinkMemory memory;
  std::uint64_t peer_shared = 0;
  VIP_MEM_HANDLE peer_memory = 0;
};

// The memory handle for a range of the program's: the one that it gave, or that of some region.
inline VIP_MEM_HANDLE memory_of(LinkState& state, const iovec& range, const void* desc) {
  if (desc != nullptr) return static_cast<VIP_MEM_HANDLE>(reinterpret_cast<std::uintptr_t>(desc));
  return state.regions->local(range.iov_base, range.iov_len);
}

// Of sends and RDMA that end with the connection. FI_ECANCELED is left to receives: where a large message was being read,
// Open MPI takes it for its own cancelling, and the program for a message that has come.
inline constexpr int kLostError = FI_ECONNRESET;

// An error of libfabric's for the status of a descriptor: of a receive, of a send or RDMA.
int error_of_status(VIP_UINT32 status);
int error_of_sent(VIP_UINT32 status);

}  // namespace viaduct::fabric

#endif
