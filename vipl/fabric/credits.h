// Flow control. In VIA a message that finds no receive ends the connection, so an end sends only what
// the other one has promised a receive for. Counts are of the whole connection, and wrap.
#ifndef VIADUCT_VIPL_FABRIC_CREDITS_H
#define VIADUCT_VIPL_FABRIC_CREDITS_H

#include <algorithm>
#include <cstdint>

#include "vipl/fabric/wire.h"

namespace viaduct::fabric {

// Receives that the peer has promised to this end.
class SendCredits {
 public:
  bool available() const { return granted_ != used_; }
  std::uint32_t used() const { return used_; }
  void use() { ++used_; }

  // The peer has promised `total` receives by now. False if it can't have promised so many.
  bool grant(std::uint32_t total) {
    if (static_cast<std::int32_t>(total - granted_) <= 0) return true;
    if (total - used_ > kWindow) return false;
    granted_ = total;
    return true;
  }

 private:
  std::uint32_t granted_ = 0;
  std::uint32_t used_ = 0;
};

// Receives that this end has promised to the peer.
class ReceiveCredits {
 public:
  std::uint32_t posted() const { return posted_; }
  std::uint32_t promised() const { return promised_; }
  std::uint32_t consumed() const { return consumed_; }

  void post() { ++posted_; }
  void consume() { ++consumed_; }

  // The total that could be promised now.
  std::uint32_t possible() const {
    return consumed_ + std::min(posted_ - consumed_, kWindow);
  }

  // Whether it is time to promise more: the peer does not know of half of the receives.
  bool due() const {
    const std::uint32_t fresh = possible() - promised_;
    return fresh != 0 && fresh >= promised_ - consumed_;
  }

  void promise(std::uint32_t total) { promised_ = total; }

 private:
  std::uint32_t posted_ = 0;
  std::uint32_t promised_ = 0;
  std::uint32_t consumed_ = 0;
};

}  // namespace viaduct::fabric

#endif
