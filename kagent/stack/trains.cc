#include "kagent/stack/trains.h"

#include <algorithm>
#include <cstring>

#include "kagent/stack/backoff.h"

namespace viaduct {

using state::Peer;
using state::Train;
using state::Vi;
using wire::PathStep;

namespace {

constexpr std::uint64_t kPause = 2 * kMs, kLongestPause = 2000 * kMs;  // between two attempts
constexpr std::uint64_t kDoubt = 1 * kMs;
constexpr std::uint64_t kProven = 100 * kMs;  // a way used that long is no failed attempt
constexpr unsigned kTried = 2;                // frames in a train that only tries the way

}  // namespace

// Begins to ask for a way by train, if there may be one. Always false: this message can't go by train yet.
template <class Platform>
bool Trains<Platform>::begin(ViIndex i) {
  const Vi& vi = vis_[i];
  Peer& peer = peers_[vi.link.peer];
  if (!bulk_path_.train_address().any() || peer.host == host_) {
    peer.train_due = ~0ull;
    return false;
  }
  if (peer.train == Train::kTold) ++root_->counters.trains_not_told;
  if (peer.train == Train::kTrying) ++root_->counters.trains_not_heard;
  put_off(peer);
  peer.train = Train::kTold;
  peer.train_token = static_cast<std::uint32_t>(environment_.random());
  tell(vi, PathStep::kTell, peer.train_token);
  return false;
}

template <class Platform>
void Trains<Platform>::put_off(Peer& peer) {
  peer.train_due = now_ + std::min(kPause << std::min<unsigned>(peer.train_attempts, 16), kLongestPause);
  if (peer.train_attempts != 0xff) ++peer.train_attempts;
}

template <class Platform>
void Trains<Platform>::set_aside(ViIndex i) {
  Peer& peer = peers_[vis_[i].link.peer];
  if (peer.train != Train::kUsed) return;
  ++root_->counters.trains_set_aside;
  if (now_ - peer.train_due > kProven) peer.train_attempts = 0;
  peer.train = Train::kDoubted;
  // Leaves time for frames that were sent again, and frames before them, to be acknowledged.
  peer.train_due = now_ + kDoubt;
  if (peer.train_attempts > 1) put_off(peer);
}

template <class Platform>
void Trains<Platform>::take_up(ViIndex i) {
  Peer& peer = peers_[vis_[i].link.peer];
  if (peer.train != Train::kDoubted) return;
  ++root_->counters.trains_taken_up;
  peer.train = Train::kUsed;
  peer.train_due = now_;  // since when
}

template <class Platform>
void Trains<Platform>::on_path(ViIndex i, const wire::Decoded& frame, const Frame& raw) {
  const Vi& vi = vis_[i];
  Peer& peer = peers_[vi.link.peer];
  wire::PathBody body;
  if (!wire::decode(frame.payload, body)) {
    ++root_->counters.drop_bad_body;
    return;
  }
  const MacAddress& address = vi.link.peer_address;
  switch (body.step) {
    case PathStep::kTell:
      if (!frames_out_.may_answer()) return;
      if (body.address != peer.train_at) {
        if (peer.train == Train::kUsed) peer.train = Train::kUnknown, peer.train_due = now_;
        peer.train_at = body.address;
        bulk_path_.learn_train(address, body.address, 0);
      }
      return tell(vi, PathStep::kTold, body.token);
    case PathStep::kTold:
      if (peer.train != Train::kTold || body.token != peer.train_token) return;
      if (!body.address.any() || !bulk_path_.learn_train(address, body.address, peer.train_attempts - 1u)) {
        peer.train_due = now_ + kLongestPause;
        ++root_->counters.trains_no_way;
        peer.train = Train::kUnknown;
        return;
      }
      peer.train_at = body.address;
      peer.train = Train::kTrying;
      return try_out(vi, body.token);
    case PathStep::kTry:
      // The peer's kernel may have refused the train: then the try came by express, and is not answered.
      if (bulk_path_.came_by_train(raw) && frames_out_.may_answer()) tell(vi, PathStep::kTried, body.token);
      return;
    case PathStep::kTried:
      if (peer.train != Train::kTrying || body.token != peer.train_token) return;
      peer.train = Train::kUsed;
      peer.train_due = now_;  // since when
      ++root_->counters.trains_used;
      return;
  }
}

template <class Platform>
void Trains<Platform>::tell(const Vi& vi, PathStep step, std::uint32_t token) {
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::Header header{};
  header.type = wire::Type::kPath;
  header.vi = vi.link.peer_vi;
  header.key = vi.link.peer_key;
  header.payload_length = wire::kPathBodyBytes;
  wire::encode(wire::PathBody{step, token, bulk_path_.train_address()},
               frame.data + wire::kEthernetBytes + wire::kHeaderBytes);
  frames_out_.submit_frame(
      frame, wire::encode(header, vi.link.peer_address, address_, ether_type_, frame.data));
}

// Tries the way with several frames, each as long as any will be: the train must meet whatever later trains would
// meet.
template <class Platform>
void Trains<Platform>::try_out(const Vi& vi, std::uint32_t token) {
  Frame frames[kTried];
  const std::size_t count = port_.reserve(frames);
  constexpr std::uint32_t kEthernet = wire::kEthernetBytes;
  constexpr std::uint32_t kAround = kEthernet + wire::kHeaderBytes + wire::kChecksumBytes;
  const std::uint32_t whole = std::min(kEthernet + bulk_path_.payload_limit(vi.link.peer_address),
                                       kAround + vi.link.payload - wire::kLessByTrain);
  for (Frame& frame : std::span(frames, count)) {
    wire::Header header{};
    header.type = wire::Type::kPath;
    header.vi = vi.link.peer_vi;
    header.key = vi.link.peer_key;
    header.payload_length = wire::kPathBodyBytes;
    wire::encode(wire::PathBody{PathStep::kTry, token, bulk_path_.train_address()},
                 frame.data + wire::kEthernetBytes + wire::kHeaderBytes);
    const std::size_t length =
        wire::encode(header, vi.link.peer_address, address_, ether_type_, frame.data);
    frame.length = std::max(static_cast<std::uint32_t>(length), std::min(frame.length, whole));
    std::memset(frame.data + length, 0, frame.length - length);
  }
  bulk_path_.submit_bulk({frames, count}, wire::add_checksum);
  frames_out_.note_submitted();
}

}  // namespace viaduct
