#include "vipl/api/discovery.h"

#include <cerrno>

#include "vipl/api/attributes.h"
#include "vipl/session/command.h"
#include "vipl/session/discovery_answers.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

// Lets one discovery of a session run at a time, as driver and session have room for one answer. The owner waits for
// the network meanwhile, so this is not a Lock: it is taken from an owner that has died.
class VIADUCT_SCOPED_CAPABILITY Turn {
 public:
  explicit Turn(LockWord& owner) VIADUCT_ACQUIRE(owner) : owner_(owner) {
    const auto self = static_cast<std::uint32_t>(sys::thread());
    constexpr std::uint64_t kLookEveryNs = 1'000'000;
    for (;;) {
      std::uint32_t other = 0;
      if (owner_.compare_exchange_strong(other, self)) return;
      if (!sys::thread_lives(static_cast<int>(other)) &&
          owner_.compare_exchange_strong(other, self)) {
        return;
      }
      sys::futex_wait(owner_, other, now_ns() + kLookEveryNs);
    }
  }
  ~Turn() VIADUCT_RELEASE() {
    owner_.store(0);
    sys::futex_wake(owner_, 1);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  LockWord& owner_;
};

}  // namespace

VIP_RETURN discover(Session& session, VIP_AUTODISCOVERY_LIST& list) {
  const Turn turn(session.discoverer);
  if (session.discovery == nullptr) {
    session.discovery = static_cast<Discovery*>(sys::map(sizeof(Discovery), -1));
    if (session.discovery == nullptr) return VIP_ERROR_RESOURCE;
  }
  Discovery& all = *session.discovery;
  Discovery::Answer& found = all.answers[all.given % Discovery::kAnswers];
  Command count(session, layout::Op::kDiscover);
  const VIP_RETURN counted = count.run();
  if (counted != VIP_SUCCESS) return counted;
  const std::uint32_t hosts =
      count->handle < layout::kMaxDiscovered ? count->handle : layout::kMaxDiscovered;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    Command which(session, layout::Op::kDiscovered);
    which->entries = i;
    const VIP_RETURN told = which.run();
    if (told != VIP_SUCCESS) return told;
    which->remote.discriminator_length = 0;
    found.pointers[i] = reinterpret_cast<VIP_NET_ADDRESS*>(found.addresses[i].bytes);
    address_out(which->remote, *found.pointers[i]);
  }
  ++all.given;
  list.NumberOfHops = 1;
  list.ADAddrArray = found.pointers;
  list.NumAdAddrs = hosts;
  return VIP_SUCCESS;
}

}  // namespace viaduct::vipl
