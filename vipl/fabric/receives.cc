#include "vipl/fabric/receives.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace viaduct::fabric {

// ------------------------------------------------------------------------------------ posting

ssize_t Receives::post(const Request& request) {
  if (state_.phase == LinkState::kDown) return -FI_ENOTCONN;
  if (left() == 0) return -FI_EAGAIN;
  if (request.count > kSegments) return -FI_EINVAL;
  const std::uint32_t at = credits_.posted() % size_;
  VIP_DESCRIPTOR& descriptor = state_.memory.slots().receives[at].descriptor;
  auto* segment = reinterpret_cast<VIP_DESCRIPTOR_SEGMENT*>(
      reinterpret_cast<unsigned char*>(&descriptor) + sizeof(VIP_CONTROL_SEGMENT));
  Posted& posted = posted_[at];
  posted.length = 0;
  std::uint32_t room = state_.transfer_bytes;  // no message of VIA is longer
  std::uint16_t count = 0;
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    posted.length += range.iov_len;
    if (range.iov_len == 0 || room == 0) continue;
    const VIP_MEM_HANDLE memory =
        memory_of(state_, range, request.descs != nullptr ? request.descs[i] : nullptr);
    if (memory == 0) return -FI_ENOMEM;
    VIP_DATA_SEGMENT& local = segment[count++].Local;
    local.Data.Address = range.iov_base;
    local.Handle = memory;
    local.Length = static_cast<std::uint32_t>(std::min<std::size_t>(range.iov_len, room));
    room -= local.Length;
  }
  descriptor.CS.Control = VIP_CONTROL_OP_SENDRECV;
  descriptor.CS.SegCount = count;
  descriptor.CS.Reserved = 0;
  descriptor.CS.Length = state_.transfer_bytes - room;
  posted.context = request.context;
  posted.buffer = request.count != 0 ? request.ranges[0].iov_base : nullptr;
  posted.wanted = request.wanted;
  if (posted.length > state_.transfer_bytes && !land(request, posted)) return -FI_ENOMEM;
  if (VipPostRecv(state_.vi, &descriptor, state_.memory.handle()) != VIP_SUCCESS) {
    release(posted);
    return -FI_EAGAIN;
  }
  credits_.post();
  promise();
  return 0;
}

// Prepares for a message that is too long for VIA: the peer writes it to the receive's memory, which it may do for as
// long as the receive is posted.
bool Receives::land(const Request& request, Posted& posted) {
  auto landings = std::make_unique<Landings>();
  landings->landing.tag = credits_.posted() + 1;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    if (range.iov_len == 0) continue;
    Region* region = state_.regions->acquire(range.iov_base, range.iov_len, false, true);
    if (region == nullptr) {
      for (Region* other : landings->regions) state_.regions->release(*other);
      return false;
    }
    landings->regions.push_back(region);
    Landing::Range& told = landings->landing.ranges[count++];
    told.address = reinterpret_cast<std::uintptr_t>(range.iov_base);
    told.length = range.iov_len;
    told.memory = region->handle;
  }
  landings->landing.count = count;
  posted.landings = std::move(landings);
  return true;
}

void Receives::release_all() {
  for (Posted& posted : posted_) release(posted);
}

void Receives::release(Posted& posted) {
  if (!posted.landings) return;
  for (Region* region : posted.landings->regions) state_.regions->release(*region);
  posted.landings.reset();
}

// ------------------------------------------------------------------------------------ promises

std::uint32_t Receives::first_promise() {
  const std::uint32_t most = credits_.possible();
  std::uint32_t number = credits_.promised();
  while (number != most && !posted_[number % size_].landings) ++number;
  credits_.promise(number);
  return number;
}

void Receives::promise() {
  if (promising_ || !state_.up() || !credits_.due()) return;
  const std::uint32_t most = credits_.possible();
  std::uint32_t total = credits_.promised();
  for (; total != most; ++total) {
    const Posted& posted = posted_[total % size_];
    if (!posted.landings) continue;
    const std::size_t offset = offsetof(Shared, landings) + (total % kWindow) * sizeof(Landing);
    const Landing& landing = posted.landings->landing;
    if (!ring_.write(Sent::Kind::kOwn, offset, &landing, sizeof landing)) break;
  }
  if (total == credits_.promised()) return;
  Promise promise;
  promise.total = total;
  promise.check = ~total;
  if (!ring_.write(Sent::Kind::kPromise, offsetof(Shared, promised), &promise, sizeof promise)) {
    return;  // the next completion tries again
  }
  promising_ = true;
  credits_.promise(total);
}

// ------------------------------------------------------------------------------------ completion

bool Receives::take(const VIP_CONTROL_SEGMENT& control) {
  if (outstanding() == 0) return false;
  const std::uint32_t number = credits_.consumed();
  Posted& posted = posted_[number % size_];
  credits_.consume();
  const Completion completion = completion_of(posted, number, control);
  if (state_.user != nullptr) state_.user->on_received(completion, posted.wanted);
  release(posted);
  return true;
}

Completion Receives::completion_of(const Posted& posted, std::uint32_t number,
                                   const VIP_CONTROL_SEGMENT& control) {
  Completion completion;
  completion.context = posted.context;
  completion.buffer = posted.buffer;
  completion.flags = FI_RECV | FI_MSG;
  completion.error = error_of_status(control.Status);
  completion.status = static_cast<int>(control.Status);
  if (completion.error != 0) {
    // The status tells nothing more.
  } else if ((control.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_REMOTE_RDMA_WRITE) {
    completion.length = control.Length;
    if ((control.Status & VIP_STATUS_IMMEDIATE) != 0) {
      completion.flags |= FI_REMOTE_CQ_DATA;
      completion.data = control.ImmediateData;
    }
  } else {
    Notice notice;
    std::memcpy(&notice, &state_.memory.shared().notices[number % kWindow], sizeof notice);
    const std::uint64_t length = notice.length;
    if (notice.tag != number + 1) {
      completion.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
      completion.data = control.ImmediateData;
      completion.length = control.Length;
    } else if (notice.kind == Notice::kWritten) {
      completion.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
      completion.data = notice.data;
      completion.length = length;
    } else if (notice.kind == Notice::kLarge && length <= posted.length) {
      completion.length = length;
      if (notice.has_data != 0) {
        completion.flags |= FI_REMOTE_CQ_DATA;
        completion.data = notice.data;
      }
    } else {
      completion.error = FI_ETRUNC;
      completion.length = posted.length;
      completion.overflow = length - std::min(length, posted.length);
    }
  }
  return completion;
}

}  // namespace viaduct::fabric
