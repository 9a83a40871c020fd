#include "sovia/lane/control_sender.h"

namespace viaduct::sovia {

bool ControlSender::post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags) {
  if (broken_ || (!has_begun_ && type != PacketType::kPark)) return false;
  if (!ring_.has_control_place()) return false;
  if (!ring_.post_control(body, bytes, immediate(type, take_credits(type), flags))) {
    fail();
    return false;
  }
  return true;
}

// Tell the owner now: if the peer lives the connection stays up, and no further event may report this.
void ControlSender::fail() {
  broken_ = true;
  transport_.failed();
}

}  // namespace viaduct::sovia
