#include <algorithm>
#include <cstddef>
#include <cstring>

#include "vipl/fabric/link.h"
#include "vipl/fabric/memory.h"

namespace viaduct::fabric {

// ------------------------------------------------------------------------------------ posting

ssize_t Link::post_receive(const Request& request) {
  if (state_ == State::kDown) return -FI_ENOTCONN;
  if (receives_left() == 0) return -FI_EAGAIN;
  if (request.count > kSegments) return -FI_EINVAL;
  const std::uint32_t at = credits_in_.posted() % receives_;
  VIP_DESCRIPTOR& descriptor = own_->receives[at].descriptor;
  auto* segment = reinterpret_cast<VIP_DESCRIPTOR_SEGMENT*>(
      reinterpret_cast<unsigned char*>(&descriptor) + sizeof(VIP_CONTROL_SEGMENT));
  Posted& posted = posted_receives_[at];
  posted.length = 0;
  std::uint32_t room = transfer_bytes_;  // no message of VIA is longer
  std::uint16_t count = 0;
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    posted.length += range.iov_len;
    if (range.iov_len == 0 || room == 0) continue;
    VIP_MEM_HANDLE memory = request.descs != nullptr ? handle_of(request.descs[i]) : 0;
    if (memory == 0) memory = regions_->local(range.iov_base, range.iov_len);
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
  descriptor.CS.Length = transfer_bytes_ - room;
  posted.context = request.context;
  posted.buffer = request.count != 0 ? request.ranges[0].iov_base : nullptr;
  posted.wanted = request.wanted;
  if (posted.length > transfer_bytes_ && !land(request, posted)) return -FI_ENOMEM;
  if (VipPostRecv(vi_, &descriptor, own_memory_) != VIP_SUCCESS) {
    release(posted);
    return -FI_EAGAIN;
  }
  credits_in_.post();
  promise();
  return 0;
}

// A message that is too long for VIA will be written to the receive's memory, which the peer may do
// for as long as it is posted.
bool Link::land(const Request& request, Posted& posted) {
  auto landings = std::make_unique<Landings>();
  landings->landing.tag = credits_in_.posted() + 1;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    if (range.iov_len == 0) continue;
    Region* region = regions_->acquire(range.iov_base, range.iov_len, false, true);
    if (region == nullptr) {
      for (Region* other : landings->regions) regions_->release(*other);
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

void Link::release(Posted& posted) {
  if (!posted.landings) return;
  for (Region* region : posted.landings->regions) regions_->release(*region);
  posted.landings.reset();
}

// ------------------------------------------------------------------------------------ promises

// What a greeting can promise: where long receives lie the peer is told later.
std::uint32_t Link::first_promise() const {
  const std::uint32_t most = credits_in_.possible();
  for (std::uint32_t number = credits_in_.promised(); number != most; ++number) {
    if (posted_receives_[number % receives_].landings) return number;
  }
  return most;
}

void Link::promise() {
  if (promising_ || state_ != State::kUp || !credits_in_.due()) return;
  const std::uint32_t most = credits_in_.possible();
  std::uint32_t total = credits_in_.promised();
  for (; total != most; ++total) {
    const Posted& posted = posted_receives_[total % receives_];
    if (!posted.landings) continue;
    const std::size_t offset = offsetof(Shared, landings) + (total % kWindow) * sizeof(Landing);
    const Landing& landing = posted.landings->landing;
    if (!write_own(Sent::Kind::kOwn, offset, &landing, sizeof landing)) break;
  }
  if (total == credits_in_.promised()) return;
  Promise promise;
  promise.total = total;
  promise.check = ~total;
  if (!write_own(Sent::Kind::kPromise, offsetof(Shared, promised), &promise, sizeof promise)) {
    return;  // the next completion tries again
  }
  promising_ = true;
  credits_in_.promise(total);
}

// ------------------------------------------------------------------------------------ completion

void Link::on_receive_done() {
  VIP_DESCRIPTOR* descriptor = nullptr;
  VipRecvDone(vi_, &descriptor);
  if (descriptor == nullptr) return;
  if (descriptor == &own_->greeting.descriptor) {
    on_greeting(*descriptor);
    return;
  }
  if (credits_in_.posted() == credits_in_.consumed()) return;
  const std::uint32_t number = credits_in_.consumed();
  Posted& posted = posted_receives_[number % receives_];
  credits_in_.consume();
  received(posted, number, descriptor->CS);
  release(posted);
  if ((descriptor->CS.Status & VIP_STATUS_ERROR_MASK) != 0) {
    if (state_ == State::kUp || state_ == State::kAnswering) end(FI_ECONNRESET);
  } else {
    promise();
  }
}

void Link::received(const Posted& posted, std::uint32_t number,
                    const VIP_CONTROL_SEGMENT& control) {
  Completion completion;
  completion.context = posted.context;
  completion.buffer = posted.buffer;
  completion.flags = FI_RECV | FI_MSG;
  completion.error = error_of_status(control.Status);
  completion.status = static_cast<int>(control.Status);
  if (completion.error != 0) {
    // Nothing more is known.
  } else if ((control.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_REMOTE_RDMA_WRITE) {
    completion.length = control.Length;
    if ((control.Status & VIP_STATUS_IMMEDIATE) != 0) {
      completion.flags |= FI_REMOTE_CQ_DATA;
      completion.data = control.ImmediateData;
    }
  } else {
    Notice notice;
    std::memcpy(&notice, &shared_->notices[number % kWindow], sizeof notice);
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
  if (user_ != nullptr) user_->on_received(completion, posted.wanted);
}

}  // namespace viaduct::fabric
