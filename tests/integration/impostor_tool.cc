// impostor_tool: asks for the lane of another program's TCP connection, and behaves as its peer would.
//
//   impostor_tool LOCAL:PORT REMOTE:PORT SECONDS WHAT     the connection as this host sees it
//   impostor_tool --serve PORT SECONDS
//
// --serve: answers the lines of one connection, over which it has a lane ("served"), keeps the VI and closes its port
// ("parked"); then the VI is offered for a connection to another server at that port ("offered").
//
// WHAT: "sits" greets and waits; "leaves" greets and is gone a second later; "closes" says that its
// program has closed; "pushes" sends data at once; "mumbles" does not even greet. Prints what it
// gets: "claimed" if its agent vouches for it, "connected", "greeted", "trusted".
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
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

// A server that had a right to its first connection, and to none after it.
class FormerServer {
 public:
  FormerServer(std::uint16_t port, int seconds) : port_(port), left_ms_(1000 * seconds) {}

  int run() {
    if (!accept_one() || !open_lane()) return 1;
    serve();
    park();
    be_offered();
    return 0;
  }

 private:
  bool accept_one() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port_);
    if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(listener, 1) != 0) return false;
    fd_ = accept(listener, nullptr, nullptr);
    close(listener);
    return fd_ >= 0 && flow_of(fd_, flow_);
  }
  bool open_lane() {
    Way way;
    if (find_way(flow_, way) == Reason::kNone) nic_ = ProcessNic::open(way.interface, [](ProcessNic&) {});
    if (nic_ == nullptr) return false;
    constexpr std::uint32_t kPeerMs = 20'000;
    transport_ = ViTransport::make(*nic_, places_for(LaneOptions{}), flow_, way.peer, 0, kPeerMs);
    if (transport_ == nullptr || !claims(*nic_, flow_, token_)) return false;
    lane_ = std::make_unique<Lane>(*transport_, LaneOptions{});
    return true;
  }
  bool passes() {
    constexpr timespec kMoment{0, 200'000};
    nanosleep(&kMoment, nullptr);
    return (left_us_ += 200) < 1000ll * left_ms_;
  }
  void take_in() {
    ProcessNic::Arrival arrival;
    while (nic_->next(arrival)) {
      if (!arrival.lost && type_of(arrival.immediate) == PacketType::kWakeup) {
        std::memcpy(&hello_, transport_->received(arrival.place), sizeof hello_);
      }
      if (arrival.lost) {
        lane_->cut();
      } else {
        lane_->arrived(arrival.place, arrival.bytes, arrival.immediate);
      }
    }
    if (!lane_->control.broken()) lane_->poll();
  }
  // Whole lines only: the client waits for each answer.
  void answer(const char* line, ssize_t bytes) {
    const std::string text = "impostor " + std::string(line, static_cast<std::size_t>(bytes));
    [[maybe_unused]] const ssize_t put = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void serve() {
    bool connected = false, trusted = false;
    int lines = 0;
    std::uint64_t in_kernel = 0;
    while (passes() && lane_->control.receiving() != Lane::State::kEnded && !lane_->control.broken()) {
      char line[100];
      const ssize_t got = ::recv(fd_, line, sizeof line, MSG_DONTWAIT);
      if (got > 0) answer(line, got);
      if (got > 0) in_kernel += static_cast<std::uint64_t>(got);
      if (!connected && transport_->connected() == VIP_SUCCESS) {
        connected = true;
        lane_->greet(token_);
      }
      take_in();
      if (lane_->greeting.has_hello() && !trusted) {
        trusted = true;
        lane_->trust();
      }
      if (lane_->rx.first() == in_kernel) lane_->rx.go_up();
      const iovec piece{line, sizeof line};
      const std::size_t read = lane_->rx.read(&piece, 1, 0, false);
      if (read != 0) answer(line, static_cast<ssize_t>(read));
      if (read != 0 && ++lines == 10) say("served");
    }
    lane_->finish(true);
  }
  void park() {
    close(fd_);
    while (passes() && !lane_->may_park()) take_in();
    lane_->park();
    while (passes() && !(lane_->control.peer_parked() && lane_->ring.outstanding() == 0)) take_in();
    if (lane_->control.peer_parked()) say("parked");
  }
  void be_offered() {
    lane_ = std::make_unique<Lane>(*transport_, LaneOptions{});
    while (passes() && !lane_->greeting.has_hello()) take_in();
    if (!lane_->greeting.has_hello()) return;
    say("offered");
    std::uint8_t token[kTokenBytes];
    if (claims(*nic_, {hello_.flow.family == 6, hello_.flow.far, hello_.flow.near}, token)) say("claimed");
    // The token that it had for the connection before.
    lane_->greet(token_);
    lane_->trust();
    while (passes()) {
      take_in();
      if (!lane_->greeting.may_start()) continue;
      say("trusted");
      return;
    }
  }

  const std::uint16_t port_;
  const int left_ms_;
  long long left_us_ = 0;
  int fd_ = -1;
  Flow flow_{};
  ProcessNic* nic_ = nullptr;
  ViTransport* transport_ = nullptr;
  std::unique_ptr<Lane> lane_;
  std::uint8_t token_[kTokenBytes] = {};
  Hello hello_{};
};

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
  if (count == 4 && std::string(arguments[1]) == "--serve") {
    libc::prepare();
    return FormerServer(static_cast<std::uint16_t>(std::atoi(arguments[2])), std::atoi(arguments[3])).run();
  }
  Flow flow{};
  if (count != 5 || !parse(arguments[1], flow.local) || !parse(arguments[2], flow.remote)) {
    std::fputs("impostor_tool LOCAL:PORT REMOTE:PORT SECONDS sits|leaves|closes|pushes|mumbles\n",
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
