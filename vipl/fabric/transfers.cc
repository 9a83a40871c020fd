#include "vipl/fabric/transfers.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

namespace viaduct::fabric {
namespace {

// Pieces of long transfers that are posted at once in each direction.
constexpr std::uint32_t kPiecesAtOnce = 16;
constexpr std::uint64_t kReadBytes = 256 * 1024;  // of a piece

std::uint64_t bytes_of(const Request& request) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < request.count; ++i) sum += request.ranges[i].iov_len;
  return sum;
}

void gather(const Request& request, unsigned char* to) {
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    if (range.iov_len != 0) std::memcpy(to, range.iov_base, range.iov_len);
    to += range.iov_len;
  }
}

}  // namespace

// ------------------------------------------------------------------------------------ promises

bool Transfers::has_credit() {
  if (credits_.available()) return true;
  const auto promise = std::bit_cast<Promise>(
      std::atomic_ref(state_.memory.shared().promised).load(std::memory_order_acquire));
  const std::uint32_t total = promise.total;
  if (promise.check != ~total) return false;
  if (!credits_.grant(total)) broken_ = true;
  return credits_.available() && !broken_;
}

void Transfers::starve() {
  if (starving_) return;
  starving_ = true;
  state_.nic->add_starving(link_);
  if (backlogged_) return;
  backlogged_ = true;
  state_.nic->add_backlogged();
}

void Transfers::leave_nic() {
  if (starving_) state_.nic->remove_starving(link_);
  starving_ = false;
  end_backlog();
}

// Everything has been sent, or nothing more will be.
void Transfers::end_backlog() {
  if (!backlogged_) return;
  backlogged_ = false;
  state_.nic->remove_backlogged();
}

void Transfers::feed() {
  if (state_.up() && !has_credit() && !broken_) return;
  starving_ = false;
  state_.nic->remove_starving(link_);
  pump();
}

// Whether an operation may be begun now.
ssize_t Transfers::admit(bool fence) {
  for (bool looked = false;; looked = true) {
    if (!state_.up()) return -FI_ENOTCONN;
    if (begun() < sends_ && (!(fence || state_.strict) || waiting_reads_.empty())) return 0;
    if (looked) break;
    state_.nic->progress();
  }
  refused_ = true;
  return -FI_EAGAIN;
}

// The program may repeat an operation that was refused.
void Transfers::tell_room() {
  if (!refused_ || begun() >= sends_) return;
  refused_ = false;
  state_.nic->tell_room();
}

// ------------------------------------------------------------------------------------ memory

ssize_t Transfers::local_ranges(const Request& request, Ranges& ranges) {
  for (std::size_t i = 0; i < request.count; ++i) {
    const iovec& range = request.ranges[i];
    if (range.iov_len == 0) continue;
    const VIP_MEM_HANDLE memory =
        memory_of(state_, range, request.descs != nullptr ? request.descs[i] : nullptr);
    if (memory == 0) return -FI_ENOMEM;
    if (!ranges.add({reinterpret_cast<std::uintptr_t>(range.iov_base), range.iov_len, memory})) {
      return -FI_EINVAL;
    }
  }
  return 0;
}

ssize_t Transfers::remote_ranges(const Request& request, Ranges& ranges) {
  for (std::size_t i = 0; i < request.remote_count; ++i) {
    const fi_rma_iov& range = request.remote[i];
    if (range.key > 0xffffffff) return -FI_EKEYREJECTED;
    if (!ranges.add({range.addr, range.len, static_cast<std::uint32_t>(range.key)})) {
      return -FI_EINVAL;
    }
  }
  return 0;
}

// ------------------------------------------------------------------------------------ one descriptor

// `copy`: the data, if it is not where whole.local says; else nullptr.
ssize_t Transfers::post_whole(const Whole& whole, const unsigned char* copy, std::size_t copied,
                         const Completion& completion, bool wanted, bool silent) {
  Sent* sent;
  SendSlot& slot = ring_.next(sent);
  const Range* target = whole.writes ? &whole.target : nullptr;
  if (copied != 0) {
    if (copy != slot.bytes) std::memcpy(slot.bytes, copy, copied);
    ring_.fill_own(slot, target, copied, whole.control);
  } else {
    ring_.fill(slot, target, whole.local, whole.control);
  }
  slot.descriptor.CS.ImmediateData = whole.data;
  sent->kind = Sent::Kind::kWhole;
  sent->wanted = wanted;
  sent->silent = silent;
  sent->completion = completion;
  if (const ssize_t failed = ring_.post(slot, *sent); failed != 0) return failed;
  ++outstanding_;
  return 0;
}

// Posts an operation now, or when its turn comes.
ssize_t Transfers::transfer(const Request& request, Whole& whole, const Completion& completion,
                       bool takes_receive) {
  const bool fence = (request.flags & FI_FENCE) != 0;
  if (const ssize_t error = admit(fence); error != 0) return error;
  if (state_.strict || fence) whole.control |= VIP_CONTROL_QFENCE;
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0) {
    whole.control |= VIP_CONTROL_IMMEDIATE;
    whole.data = static_cast<std::uint32_t>(request.data);
  }
  const bool inject = (request.flags & FI_INJECT) != 0;
  if (inject && completion.length > kInjectBytes) return -FI_EINVAL;
  if (!inject) {
    if (const ssize_t error = local_ranges(request, whole.local); error != 0) return error;
  }
  const std::size_t copied = inject ? completion.length : 0;
  if (waiting_.empty() && ring_.room() && (!takes_receive || has_credit())) {
    unsigned char* copy = ring_.next().bytes;
    if (inject) gather(request, copy);
    const ssize_t error =
        post_whole(whole, copy, copied, completion, request.wanted, request.silent);
    if (error == 0 && takes_receive) credits_.use();
    return error;
  }
  if (!state_.up() || broken_) return -FI_ENOTCONN;
  Operation operation{};
  operation.kind = Operation::Kind::kWhole;
  operation.whole = whole;
  operation.copy.resize(copied);
  if (inject) gather(request, operation.copy.data());
  operation.completion = completion;
  operation.wanted = request.wanted;
  operation.silent = request.silent;
  operation.takes_receive = takes_receive;
  start(std::move(operation));
  return 0;
}

ssize_t Transfers::send(const Request& request) {
  const std::uint64_t bytes = bytes_of(request);
  if (bytes > state_.transfer_bytes) return send_large(request, bytes);
  Whole whole;
  whole.control = VIP_CONTROL_OP_SENDRECV;
  return transfer(request, whole, {request.context, FI_SEND | FI_MSG, bytes}, true);
}

ssize_t Transfers::write(const Request& request) {
  const std::uint64_t bytes = bytes_of(request);
  const bool fence = (request.flags & FI_FENCE) != 0;
  const bool data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
  Ranges remote;
  if (const ssize_t error = remote_ranges(request, remote); error != 0) return error;
  if (remote.bytes() != bytes) return -FI_EINVAL;
  if (bytes <= state_.transfer_bytes && remote.count() <= 1) {
    Whole whole;
    whole.control = VIP_CONTROL_OP_RDMAWRITE;
    whole.writes = true;
    // A write of no bytes must name memory all the same.
    whole.target = remote.count() != 0 ? remote[0] : Range{state_.peer_shared, 0, state_.peer_memory};
    return transfer(request, whole, {request.context, FI_WRITE | FI_RMA, bytes}, data);
  }
  if ((request.flags & FI_INJECT) != 0) return -FI_EINVAL;
  Ranges local;
  if (const ssize_t error = local_ranges(request, local); error != 0) return error;
  if (const ssize_t error = admit(fence); error != 0) return error;
  Operation operation{};
  operation.kind = Operation::Kind::kWrite;
  operation.pieces = Pieces(local, remote, state_.transfer_bytes);
  operation.completion = {request.context, FI_WRITE | FI_RMA, bytes};
  operation.wanted = request.wanted;
  operation.fence = fence || state_.strict;
  operation.notify = data;
  if (data) {
    operation.takes_receive = true;
    operation.notice.kind = Notice::kWritten;
    operation.notice.length = bytes;
    operation.notice.has_data = 1;
    operation.notice.data = static_cast<std::uint32_t>(request.data);
  }
  start(std::move(operation));
  return 0;
}

// ------------------------------------------------------------------------------------ operations

ssize_t Transfers::read(const Request& request) {
  const std::uint64_t bytes = bytes_of(request);
  Ranges local;
  Ranges remote;
  if (const ssize_t error = local_ranges(request, local); error != 0) return error;
  if (const ssize_t error = remote_ranges(request, remote); error != 0) return error;
  if (remote.bytes() != bytes) return -FI_EINVAL;
  if (bytes == 0) {
    // There is nothing to read: an empty write keeps the operation's place in the order.
    Whole whole;
    whole.control = VIP_CONTROL_OP_RDMAWRITE;
    whole.writes = true;
    whole.target = {state_.peer_shared, 0, state_.peer_memory};
    return transfer(request, whole, {request.context, FI_READ | FI_RMA, 0}, false);
  }
  if (const ssize_t error = admit(false); error != 0) return error;
  Operation operation{};
  operation.kind = Operation::Kind::kRead;
  operation.pieces = Pieces(local, remote, std::min<std::uint64_t>(state_.transfer_bytes, kReadBytes));
  operation.completion = {request.context, FI_READ | FI_RMA, bytes};
  operation.wanted = request.wanted;
  operation.fence = (request.flags & FI_FENCE) != 0;
  start(std::move(operation));
  return 0;
}

// A message that no message of VIA can hold is written to where the receive lies.
ssize_t Transfers::send_large(const Request& request, std::uint64_t bytes) {
  if ((request.flags & FI_INJECT) != 0) return -FI_EINVAL;
  const bool fence = (request.flags & FI_FENCE) != 0;
  Ranges local;
  if (const ssize_t error = local_ranges(request, local); error != 0) return error;
  if (const ssize_t error = admit(fence); error != 0) return error;
  Operation operation{};
  operation.kind = Operation::Kind::kLarge;
  operation.whole.local = local;
  operation.completion = {request.context, FI_SEND | FI_MSG, bytes};
  operation.wanted = request.wanted;
  operation.takes_receive = true;
  operation.fence = fence || state_.strict;
  operation.notify = true;
  operation.notice.length = bytes;
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0) {
    operation.notice.has_data = 1;
    operation.notice.data = static_cast<std::uint32_t>(request.data);
  }
  start(std::move(operation));
  return 0;
}

// Finds where the receive lies: the peer has told it before it promised the receive.
void Transfers::find_landing(Operation& operation) {
  Landing landing;
  std::memcpy(&landing, &state_.memory.shared().landings[operation.receive % kWindow], sizeof landing);
  Ranges remote;
  std::uint64_t left = operation.notice.length;
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
  if (left == 0) {
    operation.pieces = Pieces(operation.whole.local, remote, state_.transfer_bytes);
  } else {
    operation.completion.error = FI_ETRUNC;
  }
}

void Transfers::start(Operation&& operation) {
  operations_.push_back(std::move(operation));
  Operation& kept = operations_.back();
  (kept.kind == Operation::Kind::kRead ? waiting_reads_ : waiting_).push_back(&kept);
  pump();
}

// Posts what there is room for: first the operations that must keep their order.
void Transfers::pump() {
  while (!waiting_.empty()) {
    if (!state_.up() || !pump(*waiting_.front())) return;
    const Operation& posted = *waiting_.front();
    waiting_.pop_front();
    if (posted.kind == Operation::Kind::kWhole) remove(posted);
  }
  while (!waiting_reads_.empty()) {
    if (!state_.up() || !pump(*waiting_reads_.front())) return;
    waiting_reads_.pop_front();
  }
}

// Posts what there is room for of an operation. Returns whether all of it is posted.
bool Transfers::pump(Operation& operation) {
  if (operation.takes_receive && !take_receive(operation)) return false;
  if (operation.kind == Operation::Kind::kWhole) {
    return ring_.room() && post_whole(operation.whole, operation.copy.data(), operation.copy.size(),
                                operation.completion, operation.wanted, operation.silent) == 0;
  }
  const bool reads = operation.kind == Operation::Kind::kRead;
  while (!operation.pieces.empty()) {
    const std::uint32_t flying = reads ? reads_ : pieces_ - reads_;
    if (flying >= kPiecesAtOnce || !post_piece(operation)) return false;
  }
  if (operation.notify && !post_notice(operation)) return false;
  operation.posted = true;
  return true;
}

// Takes a promised receive for the operation. False if there is none.
bool Transfers::take_receive(Operation& operation) {
  if (!has_credit()) {
    if (!broken_) starve();
    return false;
  }
  operation.takes_receive = false;
  operation.receive = credits_.used();
  credits_.use();
  if (operation.kind == Operation::Kind::kLarge) find_landing(operation);
  return true;
}

bool Transfers::post_piece(Operation& operation) {
  if (!ring_.room()) return false;
  const bool reads = operation.kind == Operation::Kind::kRead;
  Pieces rest = operation.pieces;
  const Piece piece = rest.take();
  Sent* sent;
  SendSlot& slot = ring_.next(sent);
  std::uint16_t control = reads ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE;
  if (operation.fence && !operation.begun) control |= VIP_CONTROL_QFENCE;
  ring_.fill(slot, &piece.remote, piece.local, control);
  sent->kind = Sent::Kind::kPiece;
  sent->operation = &operation;
  if (ring_.post(slot, *sent) != 0) return false;
  operation.pieces = rest;
  operation.begun = true;
  ++operation.in_flight;
  ++pieces_;
  if (reads) ++reads_;
  return true;
}

bool Transfers::post_notice(Operation& operation) {
  if (!ring_.room()) return false;
  Sent* sent;
  SendSlot& slot = ring_.next(sent);
  operation.notice.tag = operation.receive + 1;
  std::memcpy(slot.bytes, &operation.notice, sizeof operation.notice);
  const std::size_t offset =
      offsetof(Shared, notices) + (operation.receive % kWindow) * sizeof(Notice);
  const Range target{state_.peer_range(offset), sizeof(Notice), state_.peer_memory};
  ring_.fill_own(slot, &target, sizeof(Notice), VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE);
  slot.descriptor.CS.ImmediateData = 0;
  sent->kind = Sent::Kind::kPiece;
  sent->operation = &operation;
  if (ring_.post(slot, *sent) != 0) return false;
  ++operation.in_flight;
  ++pieces_;
  return true;
}

// ------------------------------------------------------------------------------------ completion

void Transfers::on_sent(Sent& sent, int error, VIP_UINT32 status) {
  if (sent.kind == Sent::Kind::kWhole) {
    --outstanding_;
    sent.completion.error = error;
    sent.completion.status = static_cast<int>(status);
    if (state_.user != nullptr) state_.user->on_sent(sent.completion, sent.wanted, sent.silent);
    return;
  }
  Operation& operation = *sent.operation;
  sent.operation = nullptr;
  --pieces_;
  if (operation.kind == Operation::Kind::kRead) --reads_;
  if (error != 0 && operation.completion.error == 0) {
    operation.completion.error = error;
    operation.completion.status = static_cast<int>(status);
  }
  if (--operation.in_flight == 0 && operation.posted) finish(operation);
}

void Transfers::go_on() {
  if (!operations_.empty()) pump();
  if (ring_.empty() && idle()) end_backlog();
  tell_room();
}

void Transfers::finish(Operation& operation) {
  if (state_.user != nullptr) state_.user->on_sent(operation.completion, operation.wanted, operation.silent);
  remove(operation);
}

void Transfers::remove(const Operation& operation) {
  operations_.erase(std::find_if(operations_.begin(), operations_.end(),
                                 [&](const Operation& one) { return &one == &operation; }));
}

// The connection has ended: operations that are not posted yet fail.
void Transfers::fail_unposted() {
  for (auto* queue : {&waiting_, &waiting_reads_}) {
    for (Operation* operation : *queue) {
      if (operation->completion.error == 0) operation->completion.error = kLostError;
      operation->posted = true;
      if (operation->in_flight == 0) finish(*operation);
    }
    queue->clear();
  }
  end_backlog();
  tell_room();
}

}  // namespace viaduct::fabric
