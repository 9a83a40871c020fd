// Fuzz target of trains: datagrams of any sender, content and segments come to a socket that learns of peers and forgets
// them, lends frames, and sends. Only a peer's frames may be handed out, each as it lay in its datagram, for as long as
// it is lent; a train goes only where its peer is; at the end all buffers can be had again.
//
// The input is a list of steps. The kernel below the socket is the one of tests/fuzz/seam.
#include "xdp/train/train_socket.h"

#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "xdp/xsk/system_calls.h"

using namespace viaduct;  // NOLINT: one translation unit
using fuzz::Input;
using fuzz::require;
using system_calls::Datagram;
using system_calls::g_kernel;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::uint32_t kMtu = 1500, kTypes = 1u << 1 | 1u << 21;
constexpr std::size_t kEthernet = 14, kSourceAt = 6, kTypeAt = 15, kFlagsAt = 17, kLeastFrame = 60, kMostSteps = 400;
constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr TrainAddress kOwn{7, {10, 0, 0, 1}, {0xfe, 0x80, 1}};
constexpr unsigned kPeers = 12;  // those of one set, which has four places, and those of others

MacAddress mac_of(unsigned peer) {
  // The last two bytes choose the set: peers below 8 share one.
  return {2, 0, static_cast<std::uint8_t>(peer), 0, 0, static_cast<std::uint8_t>(peer < 8 ? 0 : peer)};
}

TrainAddress address_of(unsigned peer, unsigned variant) {
  TrainAddress out{static_cast<std::uint16_t>(1000 + peer), {}, {}};
  if ((variant & 1) == 0) out.v4 = {10, 0, 0, static_cast<std::uint8_t>(10 + peer)};
  if ((variant & 2) == 0) out.v6 = {0xfe, 0x80, static_cast<std::uint8_t>(10 + peer)};
  if ((variant & 4) != 0) out.port = 0;
  if ((variant & 8) != 0) ++out.port;
  return out;
}

sockaddr_in6 name_of(const TrainAddress& at, bool by_v4) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(at.port);
  if (by_v4) {
    std::memcpy(out.sin6_addr.s6_addr, kMapped, sizeof kMapped);
    std::memcpy(out.sin6_addr.s6_addr + sizeof kMapped, at.v4.data(), at.v4.size());
  } else {
    std::memcpy(out.sin6_addr.s6_addr, at.v6.data(), at.v6.size());
  }
  return out;
}

bool is_at(const sockaddr_in6& name, const TrainAddress& at) {
  const auto is_way = [&](bool by_v4) { return system_calls::is_same(name, name_of(at, by_v4)); };
  const bool v4 = at.v4 != decltype(at.v4){}, v6 = at.v6 != decltype(at.v6){};
  return (v4 && is_way(true)) || (v6 && is_way(false));
}

class Trains {
 public:
  Trains() {
    g_kernel = {};
    require(socket_.open(3, kOwn, kMtu, kTypes) == nullptr, "open");
  }

  void step(unsigned what, Input& input) {
    switch (what) {
      case 0: return learn(input);
      case 1: return socket_.leave(mac_of(input.byte() % kPeers));
      case 2:
      case 3: return arrive(train(input));
      case 4: return arrive(raw(input));
      case 5:
      case 6: return receive(1 + input.byte() % 80);
      case 7: return give_back(input.byte());
      case 8:
      case 9: return add(input);
      case 10: return send();
      case 11: return change(input.byte());
      case 12: return use_pages();
      default: socket_.expect();
    }
    socket_.is_due();
  }

  void end() {
    receive(0);
    while (!lent_.empty()) give_back(0);
    send();
    g_kernel.waiting.clear();
    g_kernel.connected.reset();
    // All buffers are there: as many trains can be lent as there are.
    for (unsigned i = 0; i < kPeers; ++i) socket_.leave(mac_of(i));
    const MacAddress peer{2, 0, 99, 0, 0, 33};
    const TrainAddress at = address_of(99, 0);
    require(socket_.learn(peer, at, 0), "no place for a peer after all have left");
    learnt_[peer] = at;
    const auto before = socket_.counters().rx_no_buffer;
    for (std::uint32_t i = 0; i < TrainSocket::kBuffers; ++i) {
      Datagram datagram{std::vector<std::uint8_t>(100, 9), 0, name_of(at, false)};
      std::memcpy(datagram.bytes.data() + kSourceAt, peer.data(), peer.size());
      datagram.bytes[kTypeAt] = 1;
      arrive(std::move(datagram));
      receive(1);
    }
    require(lent_.size() == TrainSocket::kBuffers && socket_.counters().rx_no_buffer == before, "a buffer is lost");
    while (!lent_.empty()) give_back(0);
    socket_.close();
    require(g_kernel.mapped == 0, "memory is left");
  }

 private:
  struct Lent {
    Frame frame;
    std::vector<std::uint8_t> copy;
  };

  void learn(Input& input) {
    const unsigned peer = input.byte() % kPeers, variant = input.byte();
    const TrainAddress at = address_of(peer, variant);
    const bool learnt = socket_.learn(mac_of(peer), at, variant / 16);
    require(learnt == false || at.any(), "a peer without trains is learnt");
    if (learnt) learnt_[mac_of(peer)] = at;
  }

  // A train that a peer could send, or nearly so.
  Datagram train(Input& input) {
    const unsigned peer = input.byte() % kPeers, variant = input.byte();
    const std::size_t length = kLeastFrame - 2 + input.byte() * 6, frames = 1 + input.byte() % 70;
    Datagram out;
    const MacAddress mac = mac_of(peer);
    for (std::size_t i = 0; i < frames && out.bytes.size() + length <= 65'507; ++i) {
      std::vector<std::uint8_t> frame(length, static_cast<std::uint8_t>(++number_));
      std::memcpy(frame.data() + kSourceAt, mac.data(), mac.size());
      frame[kTypeAt] = (variant & 1) != 0 ? 1 : 21;
      out.bytes.insert(out.bytes.end(), frame.begin(), frame.end());
    }
    const unsigned changes = variant / 2 % 4;
    for (unsigned i = 0; i < changes; ++i) out.bytes[input.number() % out.bytes.size()] ^= input.byte();
    if ((variant & 8) != 0) out.bytes.resize(out.bytes.size() - input.byte() % out.bytes.size());
    out.segment = frames > 1 ? static_cast<int>(length) : 0;
    if ((variant & 16) != 0) out.segment = input.number();
    const auto at = learnt_.find(mac);
    const TrainAddress from = at != learnt_.end() && (variant & 32) == 0 ? at->second : address_of(peer, input.byte());
    out.from = name_of(from, (variant & 64) != 0);
    return out;
  }

  static Datagram raw(Input& input) {
    Datagram out;
    const unsigned peer = input.byte() % kPeers;
    out.from = name_of(address_of(peer, input.byte()), (peer & 1) != 0);
    out.segment = static_cast<std::int16_t>(input.number());
    const auto bytes = input.bytes(input.byte());
    out.bytes.assign(bytes.begin(), bytes.end());
    return out;
  }

  void arrive(Datagram datagram) {
    constexpr std::size_t kMostWaiting = 20;
    if (g_kernel.waiting.size() < kMostWaiting) g_kernel.waiting.push_back(std::move(datagram));
  }

  // The rest of the datagram that waits, then that of the next one; 0: all that there are.
  void receive(std::size_t most) {
    std::vector<Frame> room(most != 0 ? most : 64);
    do {
      const std::size_t before = g_kernel.waiting.size();
      const bool waited = socket_.is_waiting();
      if (!socket_.look()) {
        if (most == 0 && !lent_.empty() && g_kernel.waiting.size() == before) give_back(0);
        continue;
      }
      if (!waited) taken_ = std::move(g_kernel.given), at_ = 0;
      const std::size_t got = socket_.receive(room);
      require(got != 0, "a look that promised frames");
      for (std::size_t i = 0; i < got; ++i) take(room[i]);
    } while (most == 0 && (!g_kernel.waiting.empty() || socket_.is_waiting()));
  }

  void take(const Frame& frame) {
    require(frame.length >= kLeastFrame && frame.length <= taken_.bytes.size() - at_, "the length of a frame");
    require(std::memcmp(frame.data, taken_.bytes.data() + at_, frame.length) == 0, "the bytes of a frame");
    at_ += frame.length;
    require(socket_.owns(frame), "a frame that the socket does not own");
    MacAddress source;
    std::memcpy(source.data(), frame.data + kSourceAt, source.size());
    require(socket_.knows(source) || at_ != frame.length, "a frame of an unknown peer");
    const auto learnt = learnt_.find(source);
    require(learnt != learnt_.end(), "a frame of a peer that was never learnt");
    if (at_ == frame.length) require(is_at(taken_.from, learnt->second), "a frame from another address");
    const auto type = std::to_integer<unsigned>(frame.data[kTypeAt]);
    require(type < 32 && (kTypes >> type & 1) != 0, "a frame of a type that may not come so");
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(frame.data);
    lent_.push_back({frame, {bytes, bytes + frame.length}});
  }

  void give_back(std::size_t which) {
    if (lent_.empty()) return;
    const auto it = lent_.begin() + static_cast<std::ptrdiff_t>(which % lent_.size());
    require(std::memcmp(it->frame.data, it->copy.data(), it->copy.size()) == 0, "a lent frame has changed");
    socket_.release(it->frame);
    lent_.erase(it);
  }

  void add(Input& input) {
    const unsigned to = input.byte() % kPeers, variant = input.byte();
    const auto length = static_cast<std::uint32_t>(kLeastFrame + input.byte() * 5);
    // As long as any frame, since a short one may be filled up.
    std::vector<std::byte> bytes(kMtu, std::byte{static_cast<std::uint8_t>(++number_)});
    const MacAddress mac = mac_of(to);
    std::memcpy(bytes.data(), mac.data(), mac.size());
    bytes[kFlagsAt] = std::byte{static_cast<std::uint8_t>((variant & 1) != 0 ? 0x80 : 0)};
    const Frame frame{bytes.data(), std::min(length, socket_.payload_limit() + static_cast<std::uint32_t>(kEthernet)), 0};
    if (!socket_.add(frame)) {
      send();
      require(socket_.add(frame), "an empty train has no room");
    }
    frames_.push_back(std::move(bytes));
  }

  // One send, whole or in part by pages and then whole.
  void send() {
    const std::vector<Frame> train(socket_.waiting().begin(), socket_.waiting().end());
    g_kernel.sent.clear();
    const bool sent = socket_.send();
    require(socket_.waiting().empty(), "a train that was sent waits");
    std::vector<std::uint8_t> wanted;
    MacAddress to{};
    for (const Frame& frame : train) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(frame.data);
      // A short frame before another one is filled up with zeros.
      if (&frame != train.data()) wanted.resize((static_cast<std::size_t>(&frame - train.data())) * train[0].length);
      wanted.insert(wanted.end(), bytes, bytes + frame.length);
      std::memcpy(to.data(), frame.data, to.size());
    }
    require(train.size() <= OutgoingTrain::kMostSegments && wanted.size() <= OutgoingTrain::kMostBytes, "a train too long");
    require(sent == (train.empty() || !g_kernel.sent.empty()) || g_kernel.moves_half, "what send() returns");
    for (const system_calls::Sent& each : g_kernel.sent) {
      const bool whole = each.bytes == wanted;
      require(whole || (g_kernel.moves_half && &each != &g_kernel.sent.back()), "a train with other bytes");
      require(each.segment == train[0].length, "the length of segments");
      const sockaddr_in6* const at = each.to ? &*each.to : g_kernel.connected ? &*g_kernel.connected : nullptr;
      require(at != nullptr && is_at(*at, learnt_[to]), "a train to another address");
    }
    frames_.clear();
  }

  void change(std::uint8_t how) {
    g_kernel.refuses_sends = (how & 1) != 0;
    g_kernel.refuses_connections = (how & 2) != 0;
    g_kernel.refuses_pages = (how & 4) != 0;
    g_kernel.moves_half = (how & 8) != 0;
  }

  void use_pages() {
    if (socket_.pages().can()) return;
    socket_.use_pages({4, 5});
  }

  TrainSocket socket_;
  std::map<MacAddress, TrainAddress> learnt_;
  Datagram taken_;
  std::size_t at_ = 0;
  unsigned number_ = 0;
  std::deque<Lent> lent_;
  std::deque<std::vector<std::byte>> frames_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Trains trains;
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) trains.step(input.byte() % 14, input);
  trains.end();
  return 0;
}
