// The descriptors of a link's send queue: they are posted and come back in order, each with what it
// stands for.
#ifndef VIADUCT_VIPL_FABRIC_SEND_RING_H
#define VIADUCT_VIPL_FABRIC_SEND_RING_H

#include <vector>

#include "vipl/fabric/link_state.h"
#include "vipl/fabric/pieces.h"

namespace viaduct::fabric {

struct Operation;

// The purpose of a posted descriptor.
struct Sent {
  enum class Kind : unsigned char { kOwn, kPromise, kGreeting, kWhole, kPiece };
  Kind kind = Kind::kOwn;
  bool wanted = false;
  bool silent = false;
  Operation* operation = nullptr;
  Completion completion;
};

class SendRing {
 public:
  explicit SendRing(LinkState& state) : state_(state) {}

  // `sends`: how many the program may have. To be called before anything is posted.
  void resize(std::uint32_t sends) {
    size_ = sends + kOwnSends;
    sent_.resize(size_);
  }

  bool empty() const { return posted_ == done_; }
  bool room() const { return posted_ - done_ < size_; }
  // The slot for the descriptor that is posted next; to be called only while there is room.
  SendSlot& next(Sent*& sent);
  SendSlot& next() { return state_.memory.slots().sends[posted_ % size_]; }
  void fill(SendSlot& slot, const Range* remote, const Ranges& local, std::uint16_t control);
  // Makes a descriptor that sends the first `bytes` of the slot's own data.
  void fill_own(SendSlot& slot, const Range* remote, std::size_t bytes, std::uint16_t control);
  // 0, -FI_EAGAIN or another error.
  ssize_t post(SendSlot& slot, Sent& sent);
  // Writes a few bytes into the peer's Shared. False if there is no room.
  bool write(Sent::Kind kind, std::size_t offset, const void* bytes, std::size_t length);

  // Takes back the oldest descriptor if it has completed. nullptr if it has not.
  Sent* take(VIP_UINT32& status);

 private:
  LinkState& state_;
  std::uint32_t size_ = 0;
  std::uint32_t posted_ = 0;  // counts
  std::uint32_t done_ = 0;
  std::vector<Sent> sent_;
};

}  // namespace viaduct::fabric

#endif
