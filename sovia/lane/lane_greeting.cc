#include "sovia/lane/lane_greeting.h"

#include <endian.h>

#include <cstring>

namespace viaduct::sovia {

void LaneGreeting::greet(const std::uint8_t (&token)[kTokenBytes]) {
  Hello hello{};
  hello.version = htobe32(kProtocolVersion);
  hello.window = htobe32(options_.first_window);
  hello.messages = carries_messages_ ? 1 : 0;
  hello.acks = static_cast<std::uint8_t>(most_acks(options_));
  std::memcpy(hello.token, token, kTokenBytes);
  std::memcpy(own_token_, token, kTokenBytes);
  sender_.begin();
  sender_.post(PacketType::kWakeup, &hello, sizeof hello);
}

std::uint32_t LaneGreeting::take_hello(std::uint32_t place) {
  Hello hello;
  std::memcpy(&hello, transport_.received(place), sizeof hello);
  const std::uint32_t window = be32toh(hello.window);
  if (be32toh(hello.version) != kProtocolVersion || window > kMostWindow) return 0;
  std::memcpy(peer_token_, hello.token, kTokenBytes);
  peer_carries_messages_ = hello.messages != 0;
  peer_acks_ = hello.acks != 0 && hello.acks < kMostAcks ? hello.acks : kMostAcks;
  greeted_ = window != 0;
  return window;
}

}  // namespace viaduct::sovia
