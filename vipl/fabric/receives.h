// The posted receives of a link, and what the peer is promised of them.
//
// All functions are called with the NIC's mutex held.
#ifndef VIADUCT_VIPL_FABRIC_RECEIVES_H
#define VIADUCT_VIPL_FABRIC_RECEIVES_H

#include <memory>
#include <vector>

#include "vipl/fabric/credits.h"
#include "vipl/fabric/request.h"
#include "vipl/fabric/send_ring.h"

namespace viaduct::fabric {

class Receives {
 public:
  Receives(LinkState& state, SendRing& ring) : state_(state), ring_(ring) {
    posted_.resize(size_);
  }
  ~Receives() { release_all(); }

  void configure(std::uint32_t size) {
    size_ = size;
    posted_.resize(size);
  }

  ssize_t post(const Request& request);
  std::size_t left() const { return size_ - outstanding(); }
  std::uint32_t outstanding() const { return credits_.posted() - credits_.consumed(); }
  bool unused() const { return credits_.posted() == 0; }

  // How many receives a greeting promises: the peer is told later where long ones lie.
  std::uint32_t first_promise();
  // Tells the peer of receives that it does not know of, when it is time to.
  void promise();
  void on_promise_sent() { promising_ = false; }

  // Takes the oldest receive that has completed. False if there is none.
  bool take(const VIP_CONTROL_SEGMENT& control);
  // Forgets the regions that long receives hold.
  void release_all();

 private:
  // Regions that the peer may write to while a long receive is posted.
  struct Landings {
    std::vector<Region*> regions;
    Landing landing{};
  };
  struct Posted {
    void* context = nullptr;
    void* buffer = nullptr;
    std::uint64_t length = 0;
    bool wanted = true;
    std::unique_ptr<Landings> landings;
  };

  bool land(const Request& request, Posted& posted);
  void release(Posted& posted);
  Completion completion_of(const Posted& posted, std::uint32_t number,
                           const VIP_CONTROL_SEGMENT& control);

  LinkState& state_;
  SendRing& ring_;
  std::uint32_t size_ = kQueueSize;
  std::vector<Posted> posted_;
  ReceiveCredits credits_;
  bool promising_ = false;  // a promise is under way
};

}  // namespace viaduct::fabric

#endif
