#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "vipl/fabric/link.h"
#include "vipl/fabric/memory.h"

namespace viaduct::fabric {
namespace {

// Pieces of long transfers that are posted at once, each way.
constexpr std::uint32_t kPiecesAtOnce = 16;
constexpr std::uint64_t kReadBytes = 256 * 1024;  // of a piece

std::uint64_t bytes_of(const Request& request) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < request.count; ++i) sum += request.ranges[i].iov_len;
  return sum;
}

}  // namespace

// ------------------------------------------------------------------------------------ promises

bool Link::has_credit() {
  if (credits_out_.available()) return true;
  const auto promise = std::bit_cast<Promise>(
      std::atomic_ref(shared_->promised).load(std::memory_order_acquire));
  const std::uint32_t total = promise.total;
  if (promise.check != ~total) return false;
  if (!credits_out_.grant(total)) end(FI_ECONNABORTED);
  return credits_out_.available();
}

void Link::starve() {
  if (starving_) return;
  starving_ = true;
  nic_->add_starving();
}

bool Link::fed() {
  if (!starving_ || (state_ == State::kUp && !has_credit())) return false;
  starving_ = false;
  nic_->remove_starving();
  return true;
}

// Whether an operation may be begun now.
ssize_t Link::admit(bool takes_receive, bool fence, bool may_queue) {
  for (bool looked = false;; looked = true) {
    if (state_ != State::kUp) return -FI_ENOTCONN;
    const bool free = may_queue ? operations_.size() < sends_
                                : waiting_.empty() && outstanding_ < sends_ && room();
    if (free && (!(fence || strict_) || waiting_reads_.empty()) &&
        (!takes_receive || has_credit())) {
      return 0;
    }
    if (looked) break;
    nic_->progress();
  }
  if (takes_receive && !credits_out_.available()) starve();
  return -FI_EAGAIN;
}

// ------------------------------------------------------------------------------------ descriptors

Link::SendSlot& Link::next_slot(Sent*& sent) {
  const std::uint32_t at = posted_ % slots();
  sent = &sent_[at];
  return own_->sends[at];
}

ssize_t Link::post(SendSlot& slot, Sent& sent) {
  switch (VipPostSend(vi_, &slot.descriptor, own_memory_)) {
    case VIP_SUCCESS:
      ++posted_;
      return 0;
    case VIP_ERROR_RESOURCE:
      sent = {};
      return -FI_EAGAIN;
    default:
      sent = {};
      return -FI_EIO;
  }
}

void Link::fill(SendSlot& slot, const Range* remote, const Ranges& local, std::uint16_t control) {
  // The segments go on behind the descriptor.
  auto* segment = reinterpret_cast<VIP_DESCRIPTOR_SEGMENT*>(reinterpret_cast<unsigned char*>(&slot) +
                                                            sizeof(VIP_CONTROL_SEGMENT));
  std::uint16_t count = 0;
  if (remote != nullptr) {
    segment[count].Remote.Data.AddressBits = remote->address;
    segment[count].Remote.Handle = remote->memory;
    segment[count].Remote.Reserved = 0;
    ++count;
  }
  std::uint32_t length = 0;
  for (std::uint32_t i = 0; i < local.count(); ++i, ++count) {
    segment[count].Local.Data.AddressBits = local[i].address;
    segment[count].Local.Handle = local[i].memory;
    segment[count].Local.Length = static_cast<std::uint32_t>(local[i].length);
    length += segment[count].Local.Length;
  }
  VIP_CONTROL_SEGMENT& head = slot.descriptor.CS;
  head.SegCount = count;
  head.Control = control;
  head.Reserved = 0;
  head.Length = length;
}

ssize_t Link::local_ranges(const Request& request, Ranges& ranges) {
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    if (range.iov_len == 0) continue;
    VIP_MEM_HANDLE memory = request.descs != nullptr ? handle_of(request.descs[i]) : 0;
    if (memory == 0) memory = regions_->local(range.iov_base, range.iov_len);
    if (memory == 0) return -FI_ENOMEM;
    if (!ranges.add({reinterpret_cast<std::uintptr_t>(range.iov_base), range.iov_len, memory})) {
      return -FI_EINVAL;
    }
  }
  return 0;
}

ssize_t Link::remote_ranges(const Request& request, Ranges& ranges) {
  for (std::size_t i = 0; i < request.remote_count; ++i) {
    const fi_rma_iov& range = request.remote[i];
    if (range.key > 0xffffffff) return -FI_EKEYREJECTED;
    if (!ranges.add({range.addr, range.len, static_cast<std::uint32_t>(range.key)})) {
      return -FI_EINVAL;
    }
  }
  return 0;
}

ssize_t Link::copy_in(SendSlot& slot, const Request& request, Ranges& ranges) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    if (range.iov_len > kInjectBytes - bytes) return -FI_EINVAL;
    if (range.iov_len != 0) std::memcpy(slot.bytes + bytes, range.iov_base, range.iov_len);
    bytes += range.iov_len;
  }
  ranges.add({reinterpret_cast<std::uintptr_t>(slot.bytes), bytes, own_memory_});
  return 0;
}

// ------------------------------------------------------------------------------------ one descriptor

ssize_t Link::post_whole(const Request& request, const Range* remote, std::uint16_t control,
                         std::uint64_t flags, std::uint64_t bytes) {
  Sent* sent;
  SendSlot& slot = next_slot(sent);
  Ranges local;
  const ssize_t error = (request.flags & FI_INJECT) != 0 ? copy_in(slot, request, local)
                                                         : local_ranges(request, local);
  if (error != 0) return error;
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0) {
    control |= VIP_CONTROL_IMMEDIATE;
    slot.descriptor.CS.ImmediateData = static_cast<std::uint32_t>(request.data);
  }
  if (strict_ || (request.flags & FI_FENCE) != 0) control |= VIP_CONTROL_QFENCE;
  fill(slot, remote, local, control);
  sent->kind = Sent::Kind::kWhole;
  sent->wanted = request.wanted;
  sent->silent = request.silent;
  sent->completion.context = request.context;
  sent->completion.flags = flags;
  sent->completion.length = bytes;
  if (const ssize_t failed = post(slot, *sent); failed != 0) return failed;
  ++outstanding_;
  return 0;
}

ssize_t Link::send(const Request& request) {
  const std::uint64_t bytes = bytes_of(request);
  if (bytes > transfer_bytes_) return send_large(request, bytes);
  const bool fence = (request.flags & FI_FENCE) != 0;
  if (const ssize_t error = admit(true, fence, false); error != 0) return error;
  const ssize_t error =
      post_whole(request, nullptr, VIP_CONTROL_OP_SENDRECV, FI_SEND | FI_MSG, bytes);
  if (error == 0) credits_out_.use();
  return error;
}

ssize_t Link::write(const Request& request) {
  const std::uint64_t bytes = bytes_of(request);
  const bool fence = (request.flags & FI_FENCE) != 0;
  const bool data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
  Ranges remote;
  if (const ssize_t error = remote_ranges(request, remote); error != 0) return error;
  if (remote.bytes() != bytes) return -FI_EINVAL;
  if (bytes <= transfer_bytes_ && remote.count() <= 1) {
    if (const ssize_t error = admit(data, fence, false); error != 0) return error;
    // What writes nothing must name memory all the same.
    const Range target =
        remote.count() != 0 ? remote[0] : Range{peer_shared_, 0, peer_memory_};
    const ssize_t error =
        post_whole(request, &target, VIP_CONTROL_OP_RDMAWRITE, FI_WRITE | FI_RMA, bytes);
    if (error == 0 && data) credits_out_.use();
    return error;
  }
  if ((request.flags & FI_INJECT) != 0) return -FI_EINVAL;
  Ranges local;
  if (const ssize_t error = local_ranges(request, local); error != 0) return error;
  if (const ssize_t error = admit(data, fence, true); error != 0) return error;
  Operation operation{};
  operation.kind = Operation::Kind::kWrite;
  operation.pieces = Pieces(local, remote, transfer_bytes_);
  operation.completion = {request.context, FI_WRITE | FI_RMA, bytes};
  operation.wanted = request.wanted;
  operation.fence = fence || strict_;
  operation.notify = data;
  if (data) {
    operation.receive = credits_out_.used();
    credits_out_.use();
    operation.notice.kind = Notice::kWritten;
    operation.notice.length = bytes;
    operation.notice.has_data = 1;
    operation.notice.data = static_cast<std::uint32_t>(request.data);
  }
  start(std::move(operation));
  return 0;
}

// ------------------------------------------------------------------------------------ operations

ssize_t Link::read(const Request& request) {
  const std::uint64_t bytes = bytes_of(request);
  Ranges local;
  Ranges remote;
  if (const ssize_t error = local_ranges(request, local); error != 0) return error;
  if (const ssize_t error = remote_ranges(request, remote); error != 0) return error;
  if (remote.bytes() != bytes) return -FI_EINVAL;
  if (const ssize_t error = admit(false, false, true); error != 0) return error;
  if (bytes == 0) {
    // Nothing to read: a write of nothing keeps its place in the order.
    const Range target{peer_shared_, 0, peer_memory_};
    return room() ? post_whole(request, &target, VIP_CONTROL_OP_RDMAWRITE, FI_READ | FI_RMA, 0)
                  : -FI_EAGAIN;
  }
  Operation operation{};
  operation.kind = Operation::Kind::kRead;
  operation.pieces = Pieces(local, remote, std::min<std::uint64_t>(transfer_bytes_, kReadBytes));
  operation.completion = {request.context, FI_READ | FI_RMA, bytes};
  operation.wanted = request.wanted;
  operation.fence = (request.flags & FI_FENCE) != 0;
  start(std::move(operation));
  return 0;
}

// A message that no message of VIA can hold is written to where the receive lies. The peer has told
// that before it promised the receive.
ssize_t Link::send_large(const Request& request, std::uint64_t bytes) {
  if ((request.flags & FI_INJECT) != 0) return -FI_EINVAL;
  const bool fence = (request.flags & FI_FENCE) != 0;
  Ranges local;
  if (const ssize_t error = local_ranges(request, local); error != 0) return error;
  if (const ssize_t error = admit(true, fence, true); error != 0) return error;
  Operation operation{};
  operation.kind = Operation::Kind::kLarge;
  operation.completion = {request.context, FI_SEND | FI_MSG, bytes};
  operation.wanted = request.wanted;
  operation.fence = fence || strict_;
  operation.notify = true;
  operation.receive = credits_out_.used();
  credits_out_.use();

  Landing landing;
  std::memcpy(&landing, &shared_->landings[operation.receive % kWindow], sizeof landing);
  Ranges remote;
  std::uint64_t left = bytes;
  if (landing.tag == operation.receive + 1) {
    const std::uint32_t count = std::min<std::uint32_t>(landing.count, kSegments);
    for (std::uint32_t i = 0; i < count && left != 0; ++i) {
      const Landing::Range& range = landing.ranges[i];
      const std::uint64_t part = std::min<std::uint64_t>(left, range.length);
      remote.add({range.address, part, range.memory});
      left -= part;
    }
  }
  operation.notice.kind = left == 0 ? Notice::kLarge : Notice::kTooLong;
  operation.notice.length = bytes;
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0) {
    operation.notice.has_data = 1;
    operation.notice.data = static_cast<std::uint32_t>(request.data);
  }
  if (left == 0) {
    operation.pieces = Pieces(local, remote, transfer_bytes_);
  } else {
    operation.completion.error = FI_ETRUNC;
  }
  start(std::move(operation));
  return 0;
}

void Link::start(Operation&& operation) {
  operations_.push_back(std::move(operation));
  Operation& kept = operations_.back();
  (kept.kind == Operation::Kind::kRead ? waiting_reads_ : waiting_).push_back(&kept);
  pump();
}

// Posts what there is room for: first what has to keep its order.
void Link::pump() {
  while (!waiting_.empty()) {
    if (state_ != State::kUp || !pump(*waiting_.front())) return;
    waiting_.pop_front();
  }
  while (!waiting_reads_.empty()) {
    if (state_ != State::kUp || !pump(*waiting_reads_.front())) return;
    waiting_reads_.pop_front();
  }
}

// Whether all of it is posted.
bool Link::pump(Operation& operation) {
  const bool reads = operation.kind == Operation::Kind::kRead;
  while (!operation.pieces.empty()) {
    const std::uint32_t flying = reads ? reads_ : pieces_ - reads_;
    if (flying >= kPiecesAtOnce || !post_piece(operation)) return false;
  }
  if (operation.notify && !post_notice(operation)) return false;
  operation.posted = true;
  return true;
}

bool Link::post_piece(Operation& operation) {
  if (!room()) return false;
  const bool reads = operation.kind == Operation::Kind::kRead;
  Pieces rest = operation.pieces;
  const Piece piece = rest.take();
  Sent* sent;
  SendSlot& slot = next_slot(sent);
  std::uint16_t control = reads ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE;
  if (operation.fence && !operation.begun) control |= VIP_CONTROL_QFENCE;
  fill(slot, &piece.remote, piece.local, control);
  sent->kind = Sent::Kind::kPiece;
  sent->operation = &operation;
  if (post(slot, *sent) != 0) return false;
  operation.pieces = rest;
  operation.begun = true;
  ++operation.in_flight;
  ++pieces_;
  if (reads) ++reads_;
  return true;
}

bool Link::post_notice(Operation& operation) {
  if (!room()) return false;
  Sent* sent;
  SendSlot& slot = next_slot(sent);
  operation.notice.tag = operation.receive + 1;
  std::memcpy(slot.bytes, &operation.notice, sizeof operation.notice);
  Ranges local;
  local.add({reinterpret_cast<std::uintptr_t>(slot.bytes), sizeof(Notice), own_memory_});
  const std::size_t offset =
      offsetof(Shared, notices) + (operation.receive % kWindow) * sizeof(Notice);
  const Range target{peer_shared_ + offset, sizeof(Notice), peer_memory_};
  fill(slot, &target, local, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE);
  slot.descriptor.CS.ImmediateData = 0;
  sent->kind = Sent::Kind::kPiece;
  sent->operation = &operation;
  if (post(slot, *sent) != 0) return false;
  ++operation.in_flight;
  ++pieces_;
  return true;
}

// Writes a few bytes of our own into the peer's Shared.
bool Link::write_own(Sent::Kind kind, std::size_t offset, const void* bytes, std::size_t length) {
  if (!room()) return false;
  Sent* sent;
  SendSlot& slot = next_slot(sent);
  std::memcpy(slot.bytes, bytes, length);
  Ranges local;
  local.add({reinterpret_cast<std::uintptr_t>(slot.bytes), length, own_memory_});
  const Range target{peer_shared_ + offset, length, peer_memory_};
  fill(slot, &target, local, VIP_CONTROL_OP_RDMAWRITE);
  sent->kind = kind;
  return post(slot, *sent) == 0;
}

// ------------------------------------------------------------------------------------ completion

void Link::on_send_done() {
  VIP_DESCRIPTOR* descriptor = nullptr;
  VipSendDone(vi_, &descriptor);
  if (descriptor == nullptr || posted_ == done_) return;
  const std::uint32_t at = done_ % slots();
  Sent& sent = sent_[at];
  const VIP_UINT32 status = descriptor->CS.Status;
  const int error = error_of_status(status);
  ++done_;
  switch (sent.kind) {
    case Sent::Kind::kOwn:
      break;
    case Sent::Kind::kPromise:
      promising_ = false;
      break;
    case Sent::Kind::kGreeting:
      on_greeting_sent(error);
      break;
    case Sent::Kind::kWhole:
      --outstanding_;
      sent.completion.error = error;
      sent.completion.status = static_cast<int>(status);
      if (user_ != nullptr) user_->on_sent(sent.completion, sent.wanted, sent.silent);
      break;
    case Sent::Kind::kPiece: {
      Operation& operation = *sent.operation;
      sent.operation = nullptr;
      --pieces_;
      if (operation.kind == Operation::Kind::kRead) --reads_;
      if (error != 0 && operation.completion.error == 0) {
        operation.completion.error = error;
        operation.completion.status = static_cast<int>(status);
      }
      if (--operation.in_flight == 0 && operation.posted) finish(operation);
      break;
    }
  }
  if (state_ == State::kUp) {
    if (error != 0) {
      end(FI_ECONNRESET);
      return;
    }
    if (!operations_.empty()) pump();
    promise();
  }
}

void Link::finish(Operation& operation) {
  if (user_ != nullptr) user_->on_sent(operation.completion, operation.wanted, false);
  operations_.remove_if([&operation](const Operation& other) { return &other == &operation; });
}

// The connection has ended.
void Link::fail_unposted() {
  for (auto* queue : {&waiting_, &waiting_reads_}) {
    for (Operation* operation : *queue) {
      if (operation->completion.error == 0) operation->completion.error = FI_ECANCELED;
      operation->posted = true;
      if (operation->in_flight == 0) finish(*operation);
    }
    queue->clear();
  }
}

}  // namespace viaduct::fabric
