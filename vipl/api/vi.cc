// VIs: life, state, work queues, user data.
#include "vipl/api/attributes.h"
#include "vipl/session/callback_thread.h"
#include "vipl/session/command.h"
#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/wait.h"
#include "vipl/session/work_queue.h"

using namespace viaduct::vipl;
using viaduct::layout::Op;
using Side = WorkQueue::Side;

namespace {

// 1 + index of a CQ of the same session, 0 for NULL. False for anything else.
bool cq_in(const SessionGuard& inside, VIP_CQ_HANDLE handle, std::uint32_t& cq) {
  cq = 0;
  if (handle == nullptr) return true;
  const SessionGuard other(handle, Kind::kCq);
  if (!other || !inside.owns(other.handle(), Kind::kCq)) return false;
  const std::uint32_t index = other.handle().index();
  const std::uint32_t now = other.session().view.cq(index).generation.load();
  if (((now ^ other.handle().generation()) & kGenerationMask) != 0) return false;
  cq = index + 1;
  return true;
}

// The attributes as VipQueryVi reports them later.
VIP_VI_ATTRIBUTES kept(const VIP_VI_ATTRIBUTES& given) {
  VIP_VI_ATTRIBUTES attributes = given;
  attributes.EnableRdmaWrite = given.EnableRdmaWrite != 0;
  attributes.EnableRdmaRead = given.EnableRdmaRead != 0;
  return attributes;
}

// `idles`: passes a moment, if nothing has completed, to see whether something does.
VIP_RETURN take(VIP_VI_HANDLE handle, Side side, VIP_DESCRIPTOR** out, bool idles = true) {
  if (out == nullptr) return VIP_INVALID_PARAMETER;
  *out = nullptr;
  const SessionGuard inside(handle, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  VIP_DESCRIPTOR* descriptor;
  Session& session = inside.session();
  WorkQueue queue(session, inside.handle(), side);
  VIP_RETURN result = queue.take(descriptor);
  if (result == VIP_NOT_DONE && session.turn()) result = queue.take(descriptor);
  if (result == VIP_NOT_DONE && idles) {
    session.missed(queue.sleepers(), inside.thread().misses, [&] {
      result = queue.take(descriptor);
      return result != VIP_NOT_DONE;
    });
  }
  if (result != VIP_NOT_DONE) {
    inside.thread().misses = 0;
    *out = descriptor;
  }
  return result;
}

VIP_RETURN wait(VIP_VI_HANDLE handle, Side side, VIP_ULONG timeout, VIP_DESCRIPTOR** out) {
  if (out == nullptr) return VIP_INVALID_PARAMETER;
  *out = nullptr;
  const SessionGuard inside(handle, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  VIP_DESCRIPTOR* descriptor = nullptr;
  WorkQueue queue(inside.session(), inside.handle(), side);
  const VIP_RETURN result = queue.wait(timeout, descriptor);
  *out = descriptor;
  return result;
}

VIP_RETURN post(VIP_VI_HANDLE handle, Side side, VIP_DESCRIPTOR* descriptor,
                VIP_MEM_HANDLE memory) {
  const SessionGuard inside(handle, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  bool overrun = false;
  const VIP_RETURN result =
      WorkQueue(inside.session(), inside.handle(), side).post(descriptor, memory, overrun);
  if (overrun) {
    const unsigned op = side == Side::kReceive
                            ? static_cast<unsigned>(viaduct::layout::kOpReceive)
                            : descriptor->CS.Control & VIP_CONTROL_OP_MASK;
    callback_thread::raise(inside.session(), handle, VIP_RESOURCE_VI, VIP_ERROR_VI_OVERRUN, op);
  }
  return result;
}

}  // namespace

VIP_RETURN VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES* ViAttribs,
                       VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
                       VIP_VI_HANDLE* ViHandle) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || ViAttribs == nullptr || ViHandle == nullptr) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  Command command(session, Op::kCreateVi);
  if (!cq_in(inside, SendCQHandle, command->send_cq) ||
      !cq_in(inside, RecvCQHandle, command->receive_cq)) {
    return VIP_INVALID_PARAMETER;
  }
  const std::uint32_t send_cq = command->send_cq;
  const std::uint32_t receive_cq = command->receive_cq;
  const VIP_RETURN judged = vi_attributes_in(inside, *ViAttribs, command->vi_attributes);
  if (judged != VIP_SUCCESS) return judged;
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  const std::uint32_t vi = command->vi;
  if (vi >= session.capacity.vis) return VIP_ERROR_RESOURCE;
  const Handle handle(Kind::kVi, session.nic_part(), indexed_object(vi, command->generation));
  {
    Lock lock(session.lock);
    session.attributes[vi] = kept(*ViAttribs);
    session.note_made(vi);
    session.view.vi(vi).status.user_data.store(0);
  }
  session.own(vi);
  WorkQueue(session, handle, Side::kSend).begin(command->generation, send_cq);
  WorkQueue(session, handle, Side::kReceive).begin(command->generation, receive_cq);
  *ViHandle = handle.pointer();
  // If there is no thread, only the default error handler is missing.
  callback_thread::start(session);
  return VIP_SUCCESS;
}

VIP_RETURN VipDestroyVi(VIP_VI_HANDLE ViHandle) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  WorkQueue send(inside.session(), inside.handle(), Side::kSend);
  WorkQueue receive(inside.session(), inside.handle(), Side::kReceive);
  Command command(inside.session(), Op::kDestroyVi);
  if (!send.name(command.body())) return VIP_INVALID_PARAMETER;
  // Another thread may be given the same index as soon as the driver has it back, so it is disowned before.
  const std::uint32_t index = inside.handle().index();
  inside.session().disown(index);
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS && !command.lost()) {
    inside.session().own(index);
    return result;
  }
  send.end();
  receive.end();
  callback_thread::cancel(inside.session(), inside.handle());
  return VIP_SUCCESS;
}

VIP_RETURN VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE* State, VIP_VI_ATTRIBUTES* ViAttribs,
                      VIP_BOOLEAN* ViSendQEmpty, VIP_BOOLEAN* ViRecvQEmpty) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside || State == nullptr || ViAttribs == nullptr || ViSendQEmpty == nullptr ||
      ViRecvQEmpty == nullptr) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = inside.session();
  const std::uint32_t vi = inside.handle().index();
  const WorkQueue send(session, inside.handle(), Side::kSend);
  const WorkQueue receive(session, inside.handle(), Side::kReceive);
  VIP_VI_ATTRIBUTES attributes;
  {
    Lock lock(session.lock);
    attributes = session.attributes[vi];
  }
  // If the VI has been destroyed, the attributes may be those of another VI at its place.
  if (!send.valid()) return VIP_INVALID_PARAMETER;
  *ViAttribs = attributes;
  *ViSendQEmpty = send.empty() ? VIP_TRUE : VIP_FALSE;
  *ViRecvQEmpty = receive.empty() ? VIP_TRUE : VIP_FALSE;
  const viaduct::layout::ViStatus& status = session.view.vi(vi).status;
  const std::uint32_t state = status.state.load(std::memory_order_acquire);
  if (session.over()) {
    *State = status.left.load() != 0 ? VIP_STATE_IDLE : VIP_STATE_ERROR;
  } else {
    *State = state > VIP_STATE_ERROR ? VIP_STATE_ERROR : static_cast<VIP_VI_STATE>(state);
  }
  // A program that asks again and again waits for a change of state: gives the stack its turn.
  session.turn();
  pause(session.crowd, ++inside.thread().misses, session.driver == nullptr);
  return VIP_SUCCESS;
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES* ViAttribs) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside || ViAttribs == nullptr) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  const WorkQueue queue(session, inside.handle(), Side::kSend);
  Command command(session, Op::kSetVi);
  if (!queue.name(command.body())) return VIP_INVALID_PARAMETER;
  const VIP_RETURN judged = vi_attributes_in(inside, *ViAttribs, command->vi_attributes);
  if (judged != VIP_SUCCESS) return judged;
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  Lock lock(session.lock);
  if (queue.current()) session.attributes[inside.handle().index()] = kept(*ViAttribs);
  return VIP_SUCCESS;
}

VIP_RETURN VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR* DescriptorPtr,
                       VIP_MEM_HANDLE MemoryHandle) {
  return post(ViHandle, Side::kSend, DescriptorPtr, MemoryHandle);
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR* DescriptorPtr,
                       VIP_MEM_HANDLE MemoryHandle) {
  return post(ViHandle, Side::kReceive, DescriptorPtr, MemoryHandle);
}

VIP_RETURN VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR** DescriptorPtr) {
  return take(ViHandle, Side::kSend, DescriptorPtr);
}

VIP_RETURN VipxSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR** DescriptorPtr) {
  return take(ViHandle, Side::kSend, DescriptorPtr, false);
}

VIP_RETURN VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR** DescriptorPtr) {
  return take(ViHandle, Side::kReceive, DescriptorPtr);
}

VIP_RETURN VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR** DescriptorPtr) {
  return wait(ViHandle, Side::kSend, Timeout, DescriptorPtr);
}

VIP_RETURN VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR** DescriptorPtr) {
  return wait(ViHandle, Side::kReceive, Timeout, DescriptorPtr);
}

VIP_RETURN VipxRedirect(VIP_VI_HANDLE vi, void* address, VIP_MEM_HANDLE memory,
                        VIP_ULONG length) {
  const SessionGuard inside(vi, Kind::kVi);
  if (!inside || address == nullptr || length == 0) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  if (session.driver == nullptr) return VIP_ERROR_NOT_SUPPORTED;
  viaduct::layout::CommandBody named{};
  if (!WorkQueue(session, inside.handle(), Side::kReceive).name(named)) return VIP_INVALID_PARAMETER;
  constexpr VIP_ULONG kMost = 0xffffffff;
  return session.driver->redirect(named.vi, named.generation,
                                {reinterpret_cast<std::uintptr_t>(address), memory,
                                 static_cast<std::uint32_t>(length < kMost ? length : kMost)});
}

VIP_RETURN VipxUnredirect(VIP_VI_HANDLE vi) {
  const SessionGuard inside(vi, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  if (session.driver == nullptr) return VIP_ERROR_NOT_SUPPORTED;
  viaduct::layout::CommandBody named{};
  if (!WorkQueue(session, inside.handle(), Side::kReceive).name(named)) return VIP_INVALID_PARAMETER;
  return session.driver->unredirect(named.vi, named.generation);
}

VIP_RETURN VipxSetMore(VIP_VI_HANDLE vi, VIP_BOOLEAN more) {
  const SessionGuard inside(vi, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  return WorkQueue(inside.session(), inside.handle(), Side::kSend).set_more(more != VIP_FALSE)
             ? VIP_SUCCESS
             : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipxSetPatient(VIP_VI_HANDLE vi, VIP_BOOLEAN patient) {
  const SessionGuard inside(vi, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  return WorkQueue(inside.session(), inside.handle(), Side::kSend).set_patient(patient != VIP_FALSE)
             ? VIP_SUCCESS
             : VIP_INVALID_PARAMETER;
}

void VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID Data) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside) return;
  Session& session = inside.session();
  Lock lock(session.lock);
  if (!WorkQueue(session, inside.handle(), Side::kSend).current()) return;
  session.view.vi(inside.handle().index())
      .status.user_data.store(reinterpret_cast<std::uint64_t>(Data));
}

VIP_PVOID VipGetUserData(VIP_VI_HANDLE ViHandle) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside || !WorkQueue(inside.session(), inside.handle(), Side::kSend).valid()) return nullptr;
  return reinterpret_cast<VIP_PVOID>(
      inside.session().view.vi(inside.handle().index()).status.user_data.load());
}
