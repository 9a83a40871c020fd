#include "sovia/message/tagged_buffers.h"

#include <endian.h>
#include <errno.h>

#include <cstring>
#include <new>

#include "sovia/lane/registrations.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_pin.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/sovia.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

int TaggedBuffers::add(void* buffer, std::size_t bytes, unsigned access, TagBytes& tag) {
  const LockGuard guard(lock_);
  const std::uint64_t key = table_.add({static_cast<std::byte*>(buffer), bytes, access});
  if (key == 0) return ENOMEM;
  tag = {{'S', 'V', 'T', 1}, htobe32(access), key, htobe64(bytes), 0};
  return 0;
}

bool TaggedBuffers::withdraw(std::uint64_t key) {
  const LockGuard guard(lock_);
  TaggedBuffer* const buffer = table_.find(key);
  if (buffer == nullptr) return false;
  close_to_peer(*buffer);
  table_.remove(key);
  return true;
}

void TaggedBuffers::withdraw_all() {
  const LockGuard guard(lock_);
  table_.for_each([this](TaggedBuffer& buffer) { close_to_peer(buffer); });
  table_.clear();
}

// There are no other threads.
void TaggedBuffers::after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  new (&lock_) Lock;
  table_.clear();
}

// Opens the buffer to RDMA by the peer. False: that is not possible now.
bool TaggedBuffers::open_to_peer(TaggedBuffer& buffer) {
  std::uint32_t number;
  const LanePin lane = pin_lane(socket_, &number);
  if (!lane) return false;
  bool reads;
  {
    const LockGuard guard(lane->lane.lock());
    if (!lane->lane.remote.is_open()) return false;
    reads = lane->lane.remote.reads();
  }
  if (buffer.lane == number) return buffer.memory != 0;
  buffer.lane = number;
  const bool there = (buffer.access & SOVIA_TAG_PUT) != 0 ? writable(buffer.at, buffer.bytes)
                                                          : readable(buffer.at, buffer.bytes);
  const unsigned access = buffer.access & (reads ? SOVIA_TAG_PUT | SOVIA_TAG_GET : SOVIA_TAG_PUT);
  const bool may = there && access != 0;
  const auto rights = static_cast<RemoteMemory::Access>(access);
  buffer.memory = may ? lane->vi.remote()->open_memory(buffer.at, buffer.bytes, rights) : 0;
  return buffer.memory != 0;
}

// Ends RDMA by the peer. Memory of a lane that is over has been closed with the lane.
void TaggedBuffers::close_to_peer(TaggedBuffer& buffer) {
  std::uint32_t number;
  const LanePin lane = pin_lane(socket_, &number);
  if (!lane || buffer.memory == 0 || buffer.lane != number) return;
  lane->vi.remote()->close_memory(buffer.at, buffer.memory);
  buffer.memory = 0;
}

int TaggedBuffers::do_put(const Range& range, const std::byte* data, std::size_t bytes) {
  const TagRange piece{be64toh(range.at), bytes}, whole{be64toh(range.first), be64toh(range.bytes)};
  if (const int refused = table_.check(range.key, SOVIA_TAG_PUT, piece, whole); refused != 0) return refused;
  return copy_guarded(table_.find(range.key)->at + piece.at, data, bytes) ? 0 : EFAULT;
}

int TaggedBuffers::do_get(const GetRange& get, MessageMemory& data) {
  const std::uint32_t wanted = be32toh(get.bytes);
  const TagRange piece{be64toh(get.range.at), wanted};
  const TagRange whole{be64toh(get.range.first), be64toh(get.range.bytes)};
  // A kGet of no bytes only asks where the buffer is, maybe for a put: any access will do.
  const unsigned access = wanted != 0 ? SOVIA_TAG_GET : 0;
  if (wanted > kPieceBytes) return EINVAL;
  if (const int refused = table_.check(get.range.key, access, piece, whole); refused != 0) return refused;
  const std::byte* const from = table_.find(get.range.key)->at + piece.at;
  for (std::size_t done = 0, room; done != wanted; done += room) {
    std::byte* const to = data.room(wanted - done, room);
    if (to == nullptr) return ENOMEM;
    if (!copy_guarded(to, from + done, room)) return EFAULT;
    data.filled(room);
  }
  return 0;
}

bool TaggedBuffers::serve(FrameKind kind, const std::byte* body, std::size_t bytes, Answer& answer,
                          MessageMemory& data) {
  const std::size_t least = kind == FrameKind::kPut ? sizeof(Range) : sizeof(GetRange);
  if (bytes < least || (kind == FrameKind::kGet && bytes != least)) return false;
  Range range;
  std::memcpy(&range, body, sizeof range);
  const LockGuard guard(lock_);
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
  TaggedBuffer* const buffer = status == 0 ? table_.find(range.key) : nullptr;
  if (buffer == nullptr || !open_to_peer(*buffer)) return true;
  answer.lane = htobe32(buffer->lane);
  answer.address = htobe64(reinterpret_cast<std::uint64_t>(buffer->at));
  answer.memory = htobe32(buffer->memory);
  answer.access = htobe32(buffer->access);
  return true;
}

}  // namespace viaduct::sovia
