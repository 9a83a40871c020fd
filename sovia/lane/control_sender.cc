#include "sovia/lane/control_sender.h"

namespace viaduct::sovia {

bool ControlSender::post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags) {
  if (broken_ || !has_begun_ || !ring_.has_control_place()) return false;
  if (!ring_.post_control(body, bytes, immediate(type, take_credits(type), flags))) {
    fail();
    return false;
  }
  return true;
}

// The owner is told at once: if the peer lives the VI stays connected, and no later event may report the failure.
void ControlSender::fail() {
  broken_ = true;
  transport_.failed();
}

}  // namespace viaduct::sovia
