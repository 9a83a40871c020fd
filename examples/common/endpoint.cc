#include "examples/common/endpoint.h"

#include <algorithm>
#include <cstring>

namespace via {

Endpoint::Endpoint(Nic& nic, VIP_VI_ATTRIBUTES attributes, const Shape& shape, bool block,
                   VIP_CQ_HANDLE receive_cq)
    : nic_(nic), shape_(shape), block_(block) {
  const std::size_t pattern = Pattern::bytes(shape.size);
  receive_stride_ = stride(shape.receive_size);
  const std::size_t buffers = receive_stride_ * shape.receives;
  const std::size_t descriptors = sizeof(VIP_DESCRIPTOR) * (shape.receives + shape.sends);
  const std::size_t bytes = (pattern + buffers + descriptors + 64 + 4095) & ~std::size_t{4095};
  memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(4096, bytes)));
  if (!memory_) throw Failure(format("no memory for %zu bytes", bytes));
  std::memset(memory_.get(), 0, bytes);
  Pattern::fill(memory_.get(), pattern);
  receive_buffers_ = memory_.get() + pattern;
  receives_ = reinterpret_cast<VIP_DESCRIPTOR*>(receive_buffers_ + buffers);
  sends_ = receives_ + shape.receives;
  small_ = reinterpret_cast<std::uint8_t*>(sends_ + shape.sends);

  try {
    check(VipCreatePtag(nic.handle(), &ptag_), "VipCreatePtag");
    VIP_MEM_ATTRIBUTES memory{ptag_, attributes.EnableRdmaWrite, attributes.EnableRdmaRead};
    check(VipRegisterMem(nic.handle(), memory_.get(), bytes, &memory, &region_), "VipRegisterMem");
    attributes.Ptag = ptag_;
    check(VipCreateVi(nic.handle(), &attributes, nullptr, receive_cq, &vi_), "VipCreateVi");
    for (std::uint32_t i = 0; i < shape.receives; ++i) post_receive(&receives_[i]);
  } catch (...) {
    close();
    throw;
  }
}

void Endpoint::post_receive(VIP_DESCRIPTOR* d) {
  const std::ptrdiff_t index = d - receives_;
  std::memset(d, 0, sizeof *d);
  d->CS.SegCount = 1;
  d->CS.Length = shape_.receive_size;
  d->DS[0].Local.Data.Address =
      receive_buffers_ + receive_stride_ * static_cast<std::size_t>(index);
  d->DS[0].Local.Handle = region_;
  d->DS[0].Local.Length = shape_.receive_size;
  check(VipPostRecv(vi_, d, region_), "VipPostRecv");
}

void Endpoint::post_send(std::uint32_t number, std::uint8_t* from, std::uint32_t length) {
  VIP_DESCRIPTOR* const d = &sends_[next_send_];
  std::memset(d, 0, sizeof *d);
  d->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
  d->CS.ImmediateData = number;
  d->CS.Length = length;
  if (from != nullptr) {
    d->CS.SegCount = 1;
    d->DS[0].Local.Data.Address = from;
    d->DS[0].Local.Handle = region_;
    d->DS[0].Local.Length = length;
  }
  post(d);
}

void Endpoint::write_message(std::uint32_t number, std::uint32_t size, const Target& target,
                             std::uint32_t slot) {
  post_rdma(VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, number,
            memory_.get() + Pattern::start(number), size, target, stride(size) * slot);
}

void Endpoint::read_message(std::uint32_t number, std::uint32_t size, const Target& target,
                            std::uint32_t slot) {
  post_rdma(VIP_CONTROL_OP_RDMAREAD, number, receive_buffers_ + receive_stride_ * slot, size,
            target, Pattern::start(number));
}

void Endpoint::post_rdma(VIP_UINT16 control, std::uint32_t number, std::uint8_t* local,
                         std::uint32_t length, const Target& target, std::uint64_t offset) {
  VIP_DESCRIPTOR* const d = &sends_[next_send_];
  std::memset(d, 0, sizeof *d);
  d->CS.Control = control;
  d->CS.ImmediateData = number;
  d->CS.Length = length;
  d->CS.SegCount = 2;
  d->DS[0].Remote.Data.AddressBits = target.address + offset;
  d->DS[0].Remote.Handle = target.handle;
  d->DS[1].Local.Data.Address = local;
  d->DS[1].Local.Handle = region_;
  d->DS[1].Local.Length = length;
  post(d);
}

void Endpoint::post(VIP_DESCRIPTOR* d) {
  check(VipPostSend(vi_, d, region_), "VipPostSend");
  next_send_ = (next_send_ + 1) % shape_.sends;
  ++sends_posted_;
}

void Endpoint::reap() {
  while (sends_posted_ > 0) {
    VIP_DESCRIPTOR* d = nullptr;
    const VIP_RETURN result = VipSendDone(vi_, &d);
    if (result == VIP_NOT_DONE) return;
    judge(result, d, "send");
    --sends_posted_;
  }
}

void Endpoint::make_room() {
  reap();
  if (free_sends() == 0) await_send();
}

void Endpoint::await_send() {
  if (await(kSilenceLimit, VipSendDone, VipSendWait, "send") == nullptr) {
    if (stopped) throw Failure("stopped");
    throw ConnectionLost("no send has completed in ten seconds");
  }
  --sends_posted_;
}

void Endpoint::verify(const VIP_DESCRIPTOR* d, std::uint32_t number, std::uint32_t size) const {
  if (d->CS.Length != size) {
    throw Failure(format("message %u has %u bytes instead of %u", number, d->CS.Length, size));
  }
  verify(data(d), number, size);
}

void Endpoint::verify(const std::uint8_t* is, std::uint32_t number, std::uint32_t size) const {
  const std::uint8_t* const should = memory_.get() + Pattern::start(number);
  if (std::memcmp(is, should, size) == 0) return;
  const auto wrong = std::mismatch(is, is + size, should);
  throw Failure(format("message %u: byte %td is 0x%02x instead of 0x%02x", number, wrong.first - is,
                       *wrong.first, *wrong.second));
}

VIP_DESCRIPTOR* Endpoint::await(milliseconds limit, Done done, Wait wait, const char* what) {
  VIP_DESCRIPTOR* d = nullptr;
  if (limit == milliseconds::zero()) {
    const VIP_RETURN result = done(vi_, &d);
    if (result != VIP_NOT_DONE) judge(result, d, what);
    return d;
  }
  const Clock::time_point end = Clock::now() + limit;
  for (std::uint32_t round = 1;; ++round) {
    VIP_RETURN result;
    if (block_) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      const auto slice = std::clamp(left, milliseconds{1}, kSlice);
      result = wait(vi_, static_cast<VIP_ULONG>(slice.count()), &d);
      if (result == VIP_TIMEOUT) result = VIP_NOT_DONE;
    } else {
      result = done(vi_, &d);
    }
    if (result != VIP_NOT_DONE) [[likely]] {
      judge(result, d, what);
      return d;
    }
    if (block_ || round % 256 == 0) {
      if (stopped || Clock::now() >= end) return nullptr;
    }
  }
}

void Endpoint::judge(VIP_RETURN result, const VIP_DESCRIPTOR* d, const char* what) {
  if (result == VIP_SUCCESS) [[likely]]
    return;
  if (result != VIP_DESCRIPTOR_ERROR || d == nullptr) {
    throw ConnectionLost(format("%s: %s", what, return_text(result)));
  }
  const std::string text = format("%s: %s", what, status_text(d->CS.Status).c_str());
  constexpr std::uint32_t kLost = VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR;
  if ((d->CS.Status & kLost) != 0) throw ConnectionLost("the connection is lost (" + text + ")");
  throw Failure(text);
}

void Endpoint::close() {
  if (vi_ != nullptr) {
    VipDisconnect(vi_);
    VipDestroyVi(vi_);
    nic_.forget_refused(vi_);
  }
  if (region_ != 0) VipDeregisterMem(nic_.handle(), memory_.get(), region_);
  if (ptag_ != nullptr) VipDestroyPtag(nic_.handle(), ptag_);
  vi_ = nullptr;
  region_ = 0;
  ptag_ = nullptr;
}

}  // namespace via
