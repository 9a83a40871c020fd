#include "sovia/socket/socket_tags.h"

#include <endian.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "sovia/lane/registrations.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket_pieces.h"
#include "sovia/sovia.h"

namespace viaduct::sovia {

void SocketTags::after_fork_in_child() {
  SocketRendezvous::after_fork_in_child();
  new (&tags_lock_) Lock;
  new (&places_lock_) Lock;
  // Both are the parent's.
  tags_.clear();
  places_.clear();
  pieces_.clear();
}

// ---------------------------------------------------------------------------- this end's buffers

int SocketTags::tag(void* buffer, std::size_t bytes, unsigned access, TagBytes& tag) {
  const std::scoped_lock guard(tags_lock_);
  const std::uint64_t key = tags_.add({static_cast<std::byte*>(buffer), bytes, access});
  if (key == 0) return ENOMEM;
  tag = {{'S', 'V', 'T', 1}, htobe32(access), key, htobe64(bytes), 0};
  return 0;
}

bool SocketTags::withdraw_tag(std::uint64_t key) {
  const std::scoped_lock guard(tags_lock_);
  TaggedBuffer* const buffer = tags_.find(key);
  if (buffer == nullptr) return false;
  close_to_peer(*buffer);
  tags_.remove(key);
  return true;
}

void SocketTags::release(int fd) {
  {
    const std::scoped_lock guard(tags_lock_);
    tags_.for_each([this](TaggedBuffer& buffer) { close_to_peer(buffer); });
    tags_.clear();
  }
  SocketRendezvous::release(fd);
}

// Whether the peer can get at it by RDMA. With the tags locked.
bool SocketTags::open_to_peer(TaggedBuffer& buffer) {
  LaneEndpoint* end;
  bool reads;
  {
    const std::scoped_lock guard(in_);
    end = lane_;
    if (end == nullptr) return false;
    const std::scoped_lock lane_guard(end->lane.lock());
    if (!end->lane.has_remote()) return false;
    if (buffer.lane == lane_number_.load()) return buffer.memory != 0;
    buffer.lane = lane_number_.load();
    buffer.memory = 0;
    reads = end->lane.reads_remote();
    ++end->pins;
  }
  const bool there = (buffer.access & SOVIA_TAG_PUT) != 0 ? writable(buffer.at, buffer.bytes)
                                                          : readable(buffer.at, buffer.bytes);
  const unsigned access = buffer.access & (reads ? SOVIA_TAG_PUT | SOVIA_TAG_GET : SOVIA_TAG_PUT);
  if (there && access != 0) {
    buffer.memory = end->wire.open_memory(buffer.at, buffer.bytes, static_cast<Wire::Access>(access));
  }
  let_go(*end);
  return buffer.memory != 0;
}

// Nothing comes there any more. That of a lane which is over has been closed with it.
void SocketTags::close_to_peer(TaggedBuffer& buffer) {
  LaneEndpoint* end;
  {
    const std::scoped_lock guard(in_);
    end = lane_;
    if (end == nullptr || buffer.memory == 0 || buffer.lane != lane_number_.load()) return;
    ++end->pins;
  }
  end->wire.close_memory(buffer.at, buffer.memory);
  buffer.memory = 0;
  let_go(*end);
}

int SocketTags::do_put(const Range& range, const std::byte* data, std::size_t bytes) {
  const TagRange piece{be64toh(range.at), bytes}, whole{be64toh(range.first), be64toh(range.bytes)};
  if (const int refused = tags_.check(range.key, SOVIA_TAG_PUT, piece, whole); refused != 0) return refused;
  return copy_guarded(tags_.find(range.key)->at + piece.at, data, bytes) ? 0 : EFAULT;
}

int SocketTags::do_get(const GetRange& get, MessageMemory& data) {
  const std::uint32_t wanted = be32toh(get.bytes);
  const TagRange piece{be64toh(get.range.at), wanted};
  const TagRange whole{be64toh(get.range.first), be64toh(get.range.bytes)};
  // One that asks for nothing may be about a put.
  const unsigned access = wanted != 0 ? SOVIA_TAG_GET : 0;
  if (wanted > kPieceBytes) return EINVAL;
  if (const int refused = tags_.check(get.range.key, access, piece, whole); refused != 0) return refused;
  const std::byte* const from = tags_.find(get.range.key)->at + piece.at;
  for (std::size_t done = 0, room; done != wanted; done += room) {
    std::byte* const to = data.room(wanted - done, room);
    if (to == nullptr) return ENOMEM;
    if (!copy_guarded(to, from + done, room)) return EFAULT;
    data.filled(room);
  }
  return 0;
}

bool SocketTags::serve(FrameKind kind, const std::byte* body, std::size_t bytes, Answer& answer, MessageMemory& data) {
  const std::size_t least = kind == FrameKind::kPut ? sizeof(Range) : sizeof(GetRange);
  if (bytes < least || (kind == FrameKind::kGet && bytes != least)) return false;
  Range range;
  std::memcpy(&range, body, sizeof range);
  const std::scoped_lock guard(tags_lock_);
  int status;
  if (kind == FrameKind::kPut) {
    status = do_put(range, body + sizeof range, bytes - sizeof range);
  } else {
    GetRange get;
    std::memcpy(&get, body, sizeof get);
    status = do_get(get, data);
    if (status != 0) data.clear();
  }
  answer = {htobe32(static_cast<std::uint32_t>(status)), 0, 0, 0, 0};
  TaggedBuffer* const buffer = status == 0 ? tags_.find(range.key) : nullptr;
  if (buffer == nullptr || !open_to_peer(*buffer)) return true;
  answer.lane = htobe32(buffer->lane);
  answer.address = htobe64(reinterpret_cast<std::uint64_t>(buffer->at));
  answer.memory = htobe32(buffer->memory);
  answer.access = htobe32(buffer->access);
  return true;
}

// ---------------------------------------------------------------------------- the peer's buffers

std::uint32_t SocketTags::usable_lane() {
  const std::scoped_lock guard(in_);
  if (lane_ == nullptr) return 0;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return lane_->lane.has_remote() && lane_->lane.sending() == Lane::State::kUp ? lane_number_.load() : 0;
}

bool SocketTags::find_place(std::uint64_t key, std::uint32_t lane, Place& place) {
  const std::scoped_lock guard(places_lock_);
  const auto found = places_.find(key);
  if (found == places_.end() || found->second.lane != lane) return false;
  place = found->second;
  return true;
}

void SocketTags::forget_place(std::uint64_t key) {
  const std::scoped_lock guard(places_lock_);
  places_.erase(key);
}

// Something that is on its way between the program's memory and the peer's.
class SocketTags::Move {
 public:
  Move(SocketTags& socket, std::uint32_t lane) : socket_(socket) {
    const std::scoped_lock guard(socket.in_);
    if (socket.lane_ == nullptr || socket.lane_number_.load() != lane) return;
    end_ = socket.lane_;
    ++end_->pins;
  }
  ~Move() {
    if (end_ != nullptr) socket_.let_go(*end_);
  }
  Move(const Move&) = delete;

  // Post: bytes begun of (at, bytes, memory); called with the lane locked.
  template <class Post>
  bool run(const std::byte* data, std::size_t bytes, Post&& post) {
    // Bounded, as the registration has to be.
    constexpr std::size_t kAtOnce = 64 * 1024 * 1024;
    for (std::size_t at = 0; at != bytes; at += std::min(kAtOnce, bytes - at)) {
      if (!run_some(data + at, at, static_cast<std::uint32_t>(std::min(kAtOnce, bytes - at)), post)) return false;
    }
    return true;
  }

 private:
  template <class Post>
  bool run_some(const std::byte* data, std::size_t from, std::uint32_t bytes, Post&& post) {
    if (end_ == nullptr) return false;
    const std::uint32_t memory = end_->wire.take_memory(data, bytes);
    if (memory == 0) return false;
    const bool done = complete(from, bytes, memory, post);
    end_->wire.give_back_memory(memory);
    return done;
  }
  template <class Post>
  bool complete(std::size_t from, std::uint32_t bytes, std::uint32_t memory, Post&& post);

  SocketTags& socket_;
  LaneEndpoint* end_ = nullptr;
};

namespace {

// What a call waits for by looking again and again.
template <class Ready>
class Looking final : public Interest {
 public:
  Looking(const Watched& socket, Ready ready) : socket_(socket), ready_(ready) {}
  bool ready() override { return ready_(); }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  const Watched& socket_;
  Ready ready_;
};

}  // namespace

template <class Post>
bool SocketTags::Move::complete(std::size_t from, std::uint32_t bytes, std::uint32_t memory, Post&& post) {
  std::uint32_t begun = 0;
  std::uint64_t last = 0;
  bool done = false;
  Looking interest(static_cast<const Watched&>(socket_), [&] {
    const std::scoped_lock guard(end_->lane.lock());
    Lane& lane = end_->lane;
    if (begun != bytes && !lane.broken()) {
      begun += post(lane, from + begun, bytes - begun, memory);
      last = lane.remote_begun();
    }
    done = begun == bytes && lane.remote_has_completed(last);
    return done || lane.broken();
  });
  // Completions make no entries in the completion queue: look often.
  constexpr std::uint64_t kLookNs = 200'000;
  while (wait_for(interest, nullptr, 0, now_ns() + kLookNs, nullptr, true, Signals::kWait) != Woken::kReady) continue;
  return done;
}

bool SocketTags::put_to(const Place& place, std::uint64_t offset, const std::byte* data, std::size_t bytes) {
  if (!readable(data, bytes)) return false;
  Move move(*this, place.lane);
  const auto post = [&](Lane& lane, std::size_t at, std::uint32_t here, std::uint32_t memory) {
    return lane.write_remote(data + at, here, memory, place.address + offset + at, place.memory);
  };
  if (!move.run(data, bytes, post)) return false;
  counters::add(Counter::kBytesSentLane, bytes);
  counters::add(Counter::kTaggedByRdma);
  return true;
}

bool SocketTags::get_from(const Place& place, std::uint64_t offset, std::byte* data, std::size_t bytes) {
  if (!writable(data, bytes)) return false;
  Move move(*this, place.lane);
  const auto post = [&](Lane& lane, std::size_t at, std::uint32_t here, std::uint32_t memory) {
    return lane.read_remote(data + at, here, memory, place.address + offset + at, place.memory);
  };
  if (!move.run(data, bytes, post)) return false;
  counters::add(Counter::kBytesReceivedLane, bytes);
  counters::add(Counter::kTaggedByRdma);
  return true;
}

// ---------------------------------------------------------------------------- pieces in the stream

std::uint32_t SocketTags::begin_piece(const Piece& piece) {
  const std::scoped_lock guard(places_lock_);
  pieces_[++next_piece_] = piece;
  return next_piece_;
}

void SocketTags::drop_piece(std::uint32_t number) {
  const std::scoped_lock guard(places_lock_);
  pieces_.erase(number);
}

void SocketTags::drop_pieces() {
  const std::scoped_lock guard(places_lock_);
  pieces_.clear();
}

std::size_t SocketTags::pieces_under_way() {
  const std::scoped_lock guard(places_lock_);
  return pieces_.size();
}

bool SocketTags::is_under_way(std::uint32_t number) {
  const std::scoped_lock guard(places_lock_);
  return pieces_.contains(number);
}

int SocketTags::take_error() {
  const std::scoped_lock guard(places_lock_);
  return std::exchange(error_, 0);
}

bool SocketTags::take_answer(std::uint32_t number, const std::byte* body, std::size_t bytes) {
  Answer answer;
  if (bytes < sizeof answer) return false;
  std::memcpy(&answer, body, sizeof answer);
  const std::scoped_lock guard(places_lock_);
  const auto found = pieces_.find(number);
  if (found == pieces_.end()) return false;
  const Piece piece = found->second;
  auto status = static_cast<int>(be32toh(answer.status));
  const std::size_t got = bytes - sizeof answer;
  if (got != (piece.gets && status == 0 ? piece.bytes : 0)) return false;
  pieces_.erase(found);
  if (got != 0 && !copy_guarded(piece.to, body + sizeof answer, got)) status = EFAULT;
  if (status != 0) {
    if (error_ == 0) error_ = status;
    places_.erase(piece.key);
  } else {
    places_[piece.key] = {be32toh(answer.lane), be32toh(answer.memory), be64toh(answer.address),
                          be32toh(answer.access)};
  }
  return true;
}

bool SocketTags::put_back(const iovec* pieces, std::size_t count) {
  const std::scoped_lock both(in_, out_);
  const std::size_t bytes = total(pieces, count);
  const std::size_t rest = inherited_bytes_ != nullptr ? inherited_bytes_->left() : 0;
  InheritedBytes* const all = make_inherited_bytes(bytes + rest);
  if (all == nullptr) return false;
  std::byte* to = all->data();
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len != 0) std::memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
    to += pieces[i].iov_len;
  }
  const iovec behind{to, rest};
  const std::size_t moved = rest != 0 ? read_inherited_bytes(*inherited_bytes_, &behind, 1, 0, false) : 0;
  all->set_bytes(bytes + moved);
  if (inherited_bytes_ != nullptr) inherited_bytes_->move_record(*all);
  if (inherited_bytes_ != nullptr) free_inherited_bytes(inherited_bytes_);
  inherited_bytes_ = all;
  stop_resting();
  return true;
}

}  // namespace viaduct::sovia
