// impostor_tool: asks for the lane of another program's TCP connection, and behaves as its peer would.
//
//   impostor_tool LOCAL:PORT REMOTE:PORT SECONDS WHAT     the connection as this host sees it
//
// WHAT: "sits" greets and waits; "leaves" greets and is gone a second later; "closes" says that its
// program has closed; "pushes" sends data at once; "mumbles" does not even greet; "borrows" greets with the
// token of a connection of its own to the same server ("owns"), and waits. Prints what it gets: "claimed" if
// its agent vouches for it, "connected", "greeted", "trusted".
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sovia/process/libc.h"
#include "sovia/lane/lane.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/process_nic.h"
#include "sovia/lane/vi_transport.h"
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

bool claims(const ProcessNic& nic, const Flow& flow, std::uint8_t (&token)[kTokenBytes]) {
  VipxFlow to{};
  to.Family = AF_INET;
  std::memcpy(&to.LocalPort, flow.local.port, sizeof to.LocalPort);
  std::memcpy(&to.RemotePort, flow.remote.port, sizeof to.RemotePort);
  std::memcpy(to.LocalAddress, flow.local.address, sizeof to.LocalAddress);
  std::memcpy(to.RemoteAddress, flow.remote.address, sizeof to.RemoteAddress);
  return VipxClaim(nic.handle(), &to, token) == VIP_SUCCESS;
}

// Has the agent vouch for a connection of the tool's own. The connection stays until the end.
bool owns(const ProcessNic& nic, const Flow& other, std::uint8_t (&token)[kTokenBytes]) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::memcpy(&to.sin_port, other.remote.port, sizeof to.sin_port);
  std::memcpy(&to.sin_addr, other.remote.address, sizeof to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  Flow own;
  return connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 && flow_of(fd, own) && claims(nic, own, token);
}

class Impostor {
 public:
  Impostor(ProcessNic& nic, ViTransport& transport, std::string what)
      : nic_(nic), transport_(transport), lane_(transport, LaneOptions{}), what_(std::move(what)) {}

  void step(const std::uint8_t (&token)[kTokenBytes]) {
    if (connected_ && what_ == "mumbles") return;
    if (!connected_) {
      if (transport_.connected() != VIP_SUCCESS) return;
      connected_ = true;
      say("connected");
      if (what_ == "mumbles") return;
      lane_.greet(token);
      if (what_ == "closes") lane_.finish(true);
    }
    ProcessNic::Arrival arrival;
    while (nic_.next(arrival)) {
      if (arrival.lost) {
        lane_.cut();
      } else {
        lane_.arrived(arrival.place, arrival.bytes, arrival.immediate);
      }
    }
    if (lane_.greeting.has_hello() && !greeted_) {
      greeted_ = true;
      say("greeted");
      lane_.trust();
      if (what_ == "pushes") push();
    }
    if (lane_.greeting.may_start() && !trusted_) {
      trusted_ = true;
      say("trusted");
    }
    if (!lane_.control.broken()) lane_.poll();
  }
  bool leaves() const { return greeted_ && what_ == "leaves"; }

 private:
  void push() {
    lane_.tx.go_up(0);
    char evil[] = "evil evil evil evil";
    const iovec piece{evil, sizeof evil};
    lane_.tx.write(&piece, 1, 0, false);
  }

  ProcessNic& nic_;
  ViTransport& transport_;
  Lane lane_;
  const std::string what_;
  bool connected_ = false, greeted_ = false, trusted_ = false;
};

}  // namespace

int main(int count, char** arguments) {
  Flow flow{};
  if (count != 5 || !parse(arguments[1], flow.local) || !parse(arguments[2], flow.remote)) {
    std::fputs("impostor_tool LOCAL:PORT REMOTE:PORT SECONDS sits|leaves|closes|pushes|mumbles|borrows\n",
               stderr);
    return 2;
  }
  libc::prepare();
  Way way;
  ProcessNic* const nic =
      find_way(flow, way) == Reason::kNone ? ProcessNic::open(way.interface, [](ProcessNic&) {}) : nullptr;
  if (nic == nullptr) {
    std::fputs("impostor_tool: there is no NIC\n", stderr);
    return 1;
  }
  std::uint8_t token[kTokenBytes] = {};
  if (claims(*nic, flow, token)) say("claimed");
  if (std::string(arguments[4]) == "borrows" && owns(*nic, flow, token)) say("owns");
  const int milliseconds = 1000 * std::atoi(arguments[3]);
  ViTransport* const transport = ViTransport::make(*nic, places_for(LaneOptions{}), flow, way.peer, 0,
                                    static_cast<std::uint32_t>(milliseconds));
  if (transport == nullptr) {
    std::fputs("impostor_tool: no VI\n", stderr);
    return 1;
  }
  Impostor impostor(*nic, *transport, arguments[4]);
  constexpr timespec kMoment{0, 1'000'000};
  for (int left = milliseconds; left > 0; --left) {
    impostor.step(token);
    if (impostor.leaves()) left = std::min(left, 1000);
    nanosleep(&kMoment, nullptr);
  }
  transport->destroy();
  nic->close();
  return 0;
}
