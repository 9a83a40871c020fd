// impostor_tool: asks for the lane of a TCP connection that is somebody else's, and behaves as its
// peer would.
//
//   impostor_tool LOCAL:PORT REMOTE:PORT SECONDS WHAT     the connection as this host sees it
//
// WHAT: "sits" greets and waits; "leaves" greets and is gone a second later; "closes" says that its
// program has closed; "pushes" sends data at once; "mumbles" does not even greet. Prints what it
// gets: "claimed" if its agent vouches for it, "connected", "greeted", "trusted".
#include <arpa/inet.h>
#include <netinet/in.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "sovia/process/libc.h"
#include "sovia/lane/lane.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/nic.h"
#include "vipl/vipl_ext.h"

namespace {

using namespace viaduct::sovia;

bool parse(const std::string& text, FlowEnd& end) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  const std::uint16_t port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
  std::memcpy(end.port, &port, sizeof port);
  return inet_pton(AF_INET, text.substr(0, colon).c_str(), end.address) == 1;
}

void say(const char* word) {
  std::puts(word);
  std::fflush(stdout);
}

bool claims(const Nic& nic, const Flow& flow, std::uint8_t (&token)[kTokenBytes]) {
  VipxFlow to{};
  to.Family = AF_INET;
  std::memcpy(&to.LocalPort, flow.local.port, sizeof to.LocalPort);
  std::memcpy(&to.RemotePort, flow.remote.port, sizeof to.RemotePort);
  std::memcpy(to.LocalAddress, flow.local.address, sizeof to.LocalAddress);
  std::memcpy(to.RemoteAddress, flow.remote.address, sizeof to.RemoteAddress);
  return VipxClaim(nic.handle(), &to, token) == VIP_SUCCESS;
}

class Impostor {
 public:
  Impostor(Nic& nic, ViWire& wire, std::string what)
      : nic_(nic), wire_(wire), lane_(wire, LaneOptions{}), what_(std::move(what)) {}

  void step(const std::uint8_t (&token)[kTokenBytes]) {
    if (connected_ && what_ == "mumbles") return;
    if (!connected_) {
      if (wire_.connected() != VIP_SUCCESS) return;
      connected_ = true;
      say("connected");
      if (what_ == "mumbles") return;
      lane_.greet(token);
      if (what_ == "closes") lane_.finish(true);
    }
    Nic::Arrival arrival;
    while (nic_.next(arrival)) {
      if (arrival.lost) {
        lane_.cut();
      } else {
        lane_.arrived(arrival.place, arrival.bytes, arrival.immediate);
      }
    }
    if (lane_.has_hello() && !greeted_) {
      greeted_ = true;
      say("greeted");
      lane_.trust();
      if (what_ == "pushes") push();
    }
    if (lane_.may_start() && !trusted_) {
      trusted_ = true;
      say("trusted");
    }
    if (!lane_.broken()) lane_.turn();
  }
  bool leaves() const { return greeted_ && what_ == "leaves"; }

 private:
  void push() {
    lane_.start(0);
    char evil[] = "evil evil evil evil";
    const iovec piece{evil, sizeof evil};
    lane_.write(&piece, 1, 0, false);
  }

  Nic& nic_;
  ViWire& wire_;
  Lane lane_;
  const std::string what_;
  bool connected_ = false, greeted_ = false, trusted_ = false;
};

}  // namespace

int main(int count, char** arguments) {
  Flow flow{};
  if (count != 5 || !parse(arguments[1], flow.local) || !parse(arguments[2], flow.remote)) {
    std::fputs("impostor_tool LOCAL:PORT REMOTE:PORT SECONDS sits|leaves|closes|pushes|mumbles\n",
               stderr);
    return 2;
  }
  libc::prepare();
  Way way;
  Nic* const nic =
      find_way(flow, way) == Reason::kNone ? Nic::open(way.interface, [](Nic&) {}) : nullptr;
  if (nic == nullptr) {
    std::fputs("impostor_tool: there is no NIC\n", stderr);
    return 1;
  }
  std::uint8_t token[kTokenBytes] = {};
  if (claims(*nic, flow, token)) say("claimed");
  const int milliseconds = 1000 * std::atoi(arguments[3]);
  ViWire* const wire = ViWire::make(*nic, places_for(LaneOptions{}), flow, way.peer, 0,
                                    static_cast<std::uint32_t>(milliseconds));
  if (wire == nullptr) {
    std::fputs("impostor_tool: no VI\n", stderr);
    return 1;
  }
  Impostor impostor(*nic, *wire, arguments[4]);
  constexpr timespec kMoment{0, 1'000'000};
  for (int left = milliseconds; left > 0; --left) {
    impostor.step(token);
    if (impostor.leaves()) left = std::min(left, 1000);
    nanosleep(&kMoment, nullptr);
  }
  wire->destroy();
  nic->close();
  return 0;
}
