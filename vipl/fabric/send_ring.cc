#include "vipl/fabric/send_ring.h"

#include <cstring>

namespace viaduct::fabric {

SendSlot& SendRing::next(Sent*& sent) {
  sent = &sent_[posted_ % size_];
  return next();
}

ssize_t SendRing::post(SendSlot& slot, Sent& sent) {
  switch (VipPostSend(state_.vi, &slot.descriptor, state_.memory.handle())) {
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

void SendRing::fill(SendSlot& slot, const Range* remote, const Ranges& local,
                    std::uint16_t control) {
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

void SendRing::fill_own(SendSlot& slot, const Range* remote, std::size_t bytes,
                        std::uint16_t control) {
  Ranges local;
  local.add({reinterpret_cast<std::uintptr_t>(slot.bytes), bytes, state_.memory.handle()});
  fill(slot, remote, local, control);
}

bool SendRing::write(Sent::Kind kind, std::size_t offset, const void* bytes, std::size_t length) {
  if (!room()) return false;
  Sent* sent;
  SendSlot& slot = next(sent);
  std::memcpy(slot.bytes, bytes, length);
  const Range target{state_.peer_range(offset), length, state_.peer_memory};
  fill_own(slot, &target, length, VIP_CONTROL_OP_RDMAWRITE);
  sent->kind = kind;
  return post(slot, *sent) == 0;
}

Sent* SendRing::take(VIP_UINT32& status) {
  VIP_DESCRIPTOR* descriptor = nullptr;
  VipSendDone(state_.vi, &descriptor);
  if (descriptor == nullptr || empty()) return nullptr;
  status = descriptor->CS.Status;
  return &sent_[done_++ % size_];
}

}  // namespace viaduct::fabric
