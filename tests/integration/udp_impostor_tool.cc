// udp_impostor_tool: asks for the lane of two UDP sockets that talk, one of which is another program's, and behaves as
// that program would.
//
//   udp_impostor_tool LOCAL:PORT REMOTE:PORT SECONDS
//
// Prints what it gets: "claimed" if its agent vouches for it, "connected", "greeted", "trusted", "got data".
#include <arpa/inet.h>
#include <netinet/in.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sovia/datagram/datagram_vi.h"
#include "sovia/datagram/handshake.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/process/libc.h"
#include "vipl/vipl_ext.h"

namespace {

using namespace viaduct::sovia;
using namespace viaduct::sovia::datagram;

bool parse(const std::string& text, FlowEnd& end) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  const std::uint16_t port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
  std::memcpy(end.port, &port, sizeof port);
  return inet_pton(AF_INET, text.substr(0, colon).c_str(), end.address) == 1;
}

void say(const char* word, bool& said) {
  if (!said) std::puts(word);
  std::fflush(stdout);
  said = true;
}

bool claims(const ProcessNic& nic, const Flow& flow, Handshake::Token& token) {
  VipxFlow to{};
  to.Family = AF_INET;
  to.Protocol = IPPROTO_UDP;
  std::memcpy(&to.LocalPort, flow.local.port, sizeof to.LocalPort);
  std::memcpy(&to.RemotePort, flow.remote.port, sizeof to.RemotePort);
  std::memcpy(to.LocalAddress, flow.local.address, sizeof to.LocalAddress);
  std::memcpy(to.RemoteAddress, flow.remote.address, sizeof to.RemoteAddress);
  return VipxClaim(nic.handle(), &to, token.data()) == VIP_SUCCESS;
}

class Impostor {
 public:
  Impostor(ProcessNic& nic, DatagramVi& transport, const Handshake::Token& token) : nic_(nic), transport_(transport) {
    handshake_.begin(token);
    handshake_.trust();
  }

  void step(std::uint64_t now) {
    if (!connected_ && transport_.connected() != VIP_SUCCESS) return;
    say("connected", connected_);
    ProcessNic::Arrival arrival;
    while (nic_.next(arrival)) take(arrival);
    if (over_) return;
    const Handshake::Hello hello = handshake_.next(now);
    send(Kind::kHello, &hello, sizeof hello);
    char evil[] = "evil";
    send(Kind::kData, evil, sizeof evil);
  }

 private:
  void take(const ProcessNic::Arrival& arrival) {
    if (arrival.lost) {
      over_ = true;
      return;
    }
    if (arrival.immediate == static_cast<std::uint32_t>(Kind::kData)) say("got data", got_data_);
    if (arrival.immediate == static_cast<std::uint32_t>(Kind::kHello)) {
      handshake_.take(transport_.received(arrival.place), arrival.bytes);
      if (handshake_.heard()) say("greeted", greeted_);
      if (handshake_.trusted()) say("trusted", trusted_);
    }
    transport_.post_receive(arrival.place);
  }

  void send(Kind kind, const void* data, std::uint32_t bytes) {
    completed_ += transport_.completed();
    if (posted_ - completed_ == kSendPlaces) return;
    const std::uint32_t place = posted_ % kSendPlaces;
    std::memcpy(transport_.to_send(place), data, bytes);
    if (transport_.post(place, bytes, static_cast<std::uint32_t>(kind))) ++posted_;
  }

  ProcessNic& nic_;
  DatagramVi& transport_;
  Handshake handshake_;
  std::uint32_t posted_ = 0, completed_ = 0;
  bool connected_ = false, greeted_ = false, trusted_ = false, got_data_ = false, over_ = false;
};

}  // namespace

int main(int count, char** arguments) {
  Flow flow{};
  if (count != 4 || !parse(arguments[1], flow.local) || !parse(arguments[2], flow.remote)) {
    std::fputs("udp_impostor_tool LOCAL:PORT REMOTE:PORT SECONDS\n", stderr);
    return 2;
  }
  libc::prepare();
  Way way;
  ProcessNic* const nic =
      find_way(flow, way) == Reason::kNone ? ProcessNic::open(way.interface, [](ProcessNic&) {}) : nullptr;
  if (nic == nullptr) {
    std::fputs("udp_impostor_tool: there is no NIC\n", stderr);
    return 1;
  }
  Handshake::Token token{1, 2, 3};
  bool claimed = false;
  if (claims(*nic, flow, token)) say("claimed", claimed);
  const int milliseconds = 1000 * std::atoi(arguments[3]);
  DatagramVi* const transport =
      DatagramVi::make(*nic, flow, way.peer, static_cast<std::uint32_t>(milliseconds));
  if (transport == nullptr) {
    std::fputs("udp_impostor_tool: no VI\n", stderr);
    return 1;
  }
  Impostor impostor(*nic, *transport, token);
  constexpr timespec kMoment{0, 1'000'000};
  for (int left = milliseconds; left > 0; --left) {
    impostor.step(static_cast<std::uint64_t>(left));
    nanosleep(&kMoment, nullptr);
  }
  transport->destroy();
  nic->close();
  return 0;
}
