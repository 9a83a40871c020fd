#include "xdp/train/train_socket.h"

#include <netinet/udp.h>
#include <sys/uio.h>

#include <cstring>

#include "xdp/xsk/system_calls.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace viaduct {
namespace {

constexpr unsigned kStrangers = 16;  // datagrams dropped in one look
constexpr std::size_t kAddressBytes = 6, kTypeAt = 15, kLeastFrame = 60;
constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

template <class Bytes>
bool given(const Bytes& bytes) {
  for (const std::uint8_t byte : bytes) {
    if (byte != 0) return true;
  }
  return false;
}

bool has_v4_of(const sockaddr_in6& from, const TrainAddress& at) {
  const std::uint8_t* const bytes = from.sin6_addr.s6_addr;
  return given(at.v4) && std::memcmp(bytes, kMapped, sizeof kMapped) == 0 &&
         std::memcmp(bytes + sizeof kMapped, at.v4.data(), at.v4.size()) == 0;
}

bool has_v6_of(const sockaddr_in6& from, const TrainAddress& at) {
  return given(at.v6) && std::memcmp(from.sin6_addr.s6_addr, at.v6.data(), at.v6.size()) == 0;
}

}  // namespace

const char* TrainSocket::open(int socket, const TrainAddress& own, std::uint32_t mtu,
                              std::uint32_t types) {
  close();
  socket_ = socket;
  own_ = own, mtu_ = mtu, types_ = types;
  constexpr std::uint32_t kLeastMtu = 576;
  if (mtu < kLeastMtu) {
    close();
    errno = EINVAL;
    return "frames too short for trains";
  }
  memory_ = static_cast<std::byte*>(system_calls::map_untouched(kBuffers * kBuffer));
  if (memory_ == nullptr) {
    const int error = errno;
    close();
    errno = error;
    return "no memory for trains";
  }
  free_count_ = 0;
  for (std::uint32_t i = kBuffers; i-- > 0;) free_[free_count_++] = i, lent_[i] = 0;
  return nullptr;
}

void TrainSocket::close() {
  if (memory_ != nullptr) system_calls::unmap(memory_, kBuffers * kBuffer);
  if (socket_ >= 0) system_calls::close(socket_);
  if (guard_ >= 0) system_calls::close(guard_);
  memory_ = nullptr;
  socket_ = guard_ = -1;
  connected_ = false;
  pages_.close();
  peers_ = at_ = end_ = 0;
  train_.clear();
  std::memset(static_cast<void*>(table_), 0, sizeof table_);
}

// ---------------------------------------------------------------------------- peers

const TrainSocket::Peer* TrainSocket::find(const void* mac) const {
  for (const Peer& peer : table_[set_of(mac)]) {
    if (peer.known && same_address(peer.mac.data(), mac)) return &peer;
  }
  return nullptr;
}

bool TrainSocket::learn(const MacAddress& mac, const TrainAddress& at, unsigned attempt) {
  const bool v4 = given(own_.v4) && given(at.v4), v6 = given(own_.v6) && given(at.v6);
  if (socket_ < 0 || !at.any() || (!v4 && !v6)) return false;
  Peer* const peer = place_of(mac);
  if (peer == nullptr) return false;
  Peer now{mac, true, false, v4 && (!v6 || attempt % 2 != 0), false, Peer::Heard::kNo, at};
  const bool as_before = peer->known && same_address(peer->mac.data(), mac.data()) && peer->at == at;
  if (as_before) now.heard = peer->heard;
  if (connected_ && (!as_before || peer->by_v4 != now.by_v4)) disconnect();
  if (!peer->known) ++peers_;
  *peer = now;
  return true;
}

// The peer's own place, else a free one, else the place of a peer whose connections have ended.
TrainSocket::Peer* TrainSocket::place_of(const MacAddress& mac) {
  if (Peer* const own = find(mac.data())) return own;
  Peer *free = nullptr, *left = nullptr;
  for (Peer& each : table_[set_of(mac.data())]) {
    if (!each.known) free = &each;
    if (each.left) left = &each;
  }
  return free != nullptr ? free : left;
}

// Whether the socket may be connected to the peer: it is the only peer, and does not send from another address than
// the one that it is sent to, as a connected socket gets no datagrams from there.
bool TrainSocket::may_connect(const Peer& peer) const {
  const auto other = peer.by_v4 ? Peer::Heard::kByV6 : Peer::Heard::kByV4;
  return peers_ == 1 && pages_.can() && !peer.alone && peer.heard != other;
}

// Connects the socket, so that the kernel need not look for the way each time, and takes pages.
void TrainSocket::connect_to(Peer& peer) {
  const sockaddr_in6 to = address_of(peer);
  connected_ = system_calls::connect(socket_, &to) == 0;
  peer.alone = !connected_;
}

// Disconnects the socket. The kernel then forgets the interface too, so it is set anew.
void TrainSocket::disconnect() {
  int interface = 0;
  socklen_t bytes = sizeof interface;
  system_calls::getsockopt(socket_, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, &bytes);
  system_calls::connect(socket_, nullptr);
  system_calls::setsockopt(socket_, SOL_SOCKET, SO_BINDTOIFINDEX, interface);
  connected_ = false;
  pages_.renew();
}

void TrainSocket::leave(const MacAddress& mac) {
  if (Peer* const peer = find(mac.data())) peer->left = true;
}

// ---------------------------------------------------------------------------- sending

bool TrainSocket::send() {
  if (train_.empty()) return true;
  Peer* const peer = find(train_.first());
  const bool sent = peer != nullptr && send_to(*peer);
  if (sent) {
    ++counters_.tx_trains;
    counters_.tx_frames += train_.segments();
    counters_.tx_bytes += train_.bytes();
  } else if (peer != nullptr) {
    ++counters_.tx_refused;
  }
  train_.clear();
  return sent;
}

sockaddr_in6 TrainSocket::address_of(const Peer& peer) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = __builtin_bswap16(peer.at.port);
  if (peer.by_v4) {
    std::memcpy(to.sin6_addr.s6_addr, kMapped, sizeof kMapped);
    std::memcpy(to.sin6_addr.s6_addr + sizeof kMapped, peer.at.v4.data(), peer.at.v4.size());
  } else {
    std::memcpy(to.sin6_addr.s6_addr, peer.at.v6.data(), peer.at.v6.size());
  }
  return to;
}

bool TrainSocket::send_to(Peer& peer) {
  const auto segment = static_cast<std::uint16_t>(train_.segment_bytes());
  const std::span<iovec> pieces = train_.pieces();
  if (!connected_ && may_connect(peer)) [[unlikely]] connect_to(peer);
  if (connected_ && train_.is_checked() && train_.segments() > 1 && pages_.send(socket_, pieces, segment)) return true;
  sockaddr_in6 to = address_of(peer);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof segment)] = {};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = IPPROTO_UDP;
  head->cmsg_type = UDP_SEGMENT;
  head->cmsg_len = CMSG_LEN(sizeof segment);
  std::memcpy(CMSG_DATA(head), &segment, sizeof segment);
  return system_calls::send_message(socket_, message) >= 0;
}

// ---------------------------------------------------------------------------- receiving

bool TrainSocket::is_from(const Peer& peer, const sockaddr_in6& from) const {
  return from.sin6_port == __builtin_bswap16(peer.at.port) &&
         (has_v6_of(from, peer.at) || has_v4_of(from, peer.at));
}

bool TrainSocket::look() {
  if (is_waiting()) return true;
  looks_ = 0;
  expected_.store(false, std::memory_order_relaxed);  // before the look: what comes later sets it again
  if (free_count_ == 0) {
    ++counters_.rx_no_buffer;
    return false;
  }
  const std::uint32_t buffer = free_[free_count_ - 1];
  std::byte* const data = memory_ + buffer * kBuffer;
  received_ = 0;
  bool taken = false;
  for (unsigned n = 0; n < kStrangers && !taken; ++n) {
    taken = take_next(data);
    if (received_ < 0) break;
  }
  if (!taken) {
    if (++vain_ == kInVain && interval_ < kCold) interval_ *= 2, vain_ = 0;
    return false;
  }
  interval_ = kHot, vain_ = 0;
  looks_ = kHot;  // the next look is due at once: trains come one behind the other
  --free_count_;
  buffer_ = buffer;
  return true;
}

// Takes the next datagram from the kernel. received_: its bytes; negative: there is none.
bool TrainSocket::take_next(std::byte* data) {
  sockaddr_in6 from;
  iovec piece{data, kBuffer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const long got = received_ = system_calls::receive_message(socket_, message);
  if (got <= 0) return false;
  auto segment = static_cast<std::size_t>(got);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != IPPROTO_UDP || head->cmsg_type != UDP_GRO) continue;
    int told;
    std::memcpy(&told, CMSG_DATA(head), sizeof told);
    if (told > 0) segment = static_cast<std::size_t>(told);
  }
  return take_datagram(data, static_cast<std::size_t>(got), segment, from);
}

// Takes a train if it comes from a peer that may send it, all of it or nothing.
bool TrainSocket::take_datagram(std::byte* data, std::size_t bytes, std::size_t segment,
                                const sockaddr_in6& from) {
  Peer* const peer = bytes < kLeastFrame ? nullptr : find(data + kAddressBytes);
  if (peer == nullptr || !is_from(*peer, from)) {
    ++counters_.rx_wrong_source;
    return false;
  }
  std::uint32_t frames = 0;
  for (std::size_t at = 0; at < bytes; at += segment, ++frames) {
    const std::size_t length = bytes - at < segment ? bytes - at : segment;
    const std::byte* const frame = data + at;
    const auto type = length < kLeastFrame ? 0xffu : std::to_integer<unsigned>(frame[kTypeAt]);
    if (type >= 32 || (types_ >> type & 1) == 0 ||
        !same_address(frame + kAddressBytes, peer->mac.data())) {
      ++counters_.rx_wrong_frame;
      return false;
    }
  }
  peer->heard = std::memcmp(from.sin6_addr.s6_addr, kMapped, sizeof kMapped) == 0 ? Peer::Heard::kByV4 : Peer::Heard::kByV6;
  at_ = 0, end_ = static_cast<std::uint32_t>(bytes), segment_ = static_cast<std::uint32_t>(segment);
  ++counters_.rx_trains;
  counters_.rx_frames += frames;
  counters_.rx_bytes += bytes;
  return true;
}

std::size_t TrainSocket::receive(std::span<Frame> frames) {
  std::size_t n = 0;
  if (at_ == 0 && at_ != end_) lent_[buffer_] = 1;  // counts one more until all frames are handed out
  for (; n < frames.size() && at_ != end_; ++n) {
    const std::uint32_t length = end_ - at_ < segment_ ? end_ - at_ : segment_;
    frames[n] = {memory_ + buffer_ * kBuffer + at_, length, buffer_};
    at_ += length;
    ++lent_[buffer_];
  }
  if (n != 0 && at_ == end_) --lent_[buffer_];  // the borrower has at least the last frame
  return n;
}

void TrainSocket::release(const Frame& frame) {
  const std::uint32_t buffer = frame.id;
  if (buffer >= kBuffers || lent_[buffer] == 0) return;
  if (--lent_[buffer] == 0) free_[free_count_++] = buffer;
}

}  // namespace viaduct
