// Protection tags and registered memory.
#include "vipl/api/attributes.h"
#include "vipl/session/command.h"
#include "vipl/session/outgoing.h"
#include "vipl/session/session_guard.h"

using namespace viaduct::vipl;
using viaduct::layout::Op;

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE* Ptag) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || Ptag == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kCreatePtag);
  const VIP_RETURN result = command.run();
  if (result == VIP_SUCCESS) *Ptag = ptag_out(inside.session(), command->handle);
  return result;
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  const Handle ptag(Ptag);
  if (!inside || !inside.owns(ptag, Kind::kPtag)) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kDestroyPtag);
  command->handle = ptag.driver_handle();
  const VIP_RETURN result = command.run();
  return command.lost() ? VIP_SUCCESS : result;
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
                          VIP_MEM_ATTRIBUTES* MemAttribs, VIP_MEM_HANDLE* MemoryHandle) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || VirtualAddress == nullptr || Length == 0 || MemoryHandle == nullptr) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = inside.session();
  Command command(session, Op::kRegisterMemory);
  const auto address = reinterpret_cast<std::uint64_t>(VirtualAddress);
  if (Length > ~address) return VIP_INVALID_PARAMETER;
  const VIP_RETURN judged = memory_attributes_in(inside, MemAttribs, command->memory);
  if (judged != VIP_SUCCESS) return judged;
  command->memory.address = address;
  command->memory.length = Length;
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  if (command->handle == 0) return VIP_ERROR_RESOURCE;
  session.regions.insert(command->handle, address, Length);
  *MemoryHandle = command->handle;
  return VIP_SUCCESS;
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
                            VIP_MEM_HANDLE MemoryHandle) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || MemoryHandle == 0) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  Command command(session, Op::kDeregisterMemory);
  command->memory.address = reinterpret_cast<std::uint64_t>(VirtualAddress);
  command->handle = MemoryHandle;
  outgoing::Patience patience;
  outgoing::wait_for_memory(session, MemoryHandle, patience);
  // Another thread may be given the same handle as soon as the driver has it back. So the handle is taken off the
  // table before, and put back if the driver refuses.
  const std::uint64_t length = session.regions.remove(MemoryHandle, command->memory.address);
  const bool may_have_been = length != 0 || !session.regions.complete();
  const VIP_RETURN result = command.run();
  if (command.lost()) return may_have_been ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
  if (result != VIP_SUCCESS && length != 0) {
    session.regions.insert(MemoryHandle, reinterpret_cast<std::uint64_t>(VirtualAddress), length);
  }
  return result;
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                       VIP_MEM_ATTRIBUTES* MemAttribs) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || MemHandle == 0 || MemAttribs == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kQueryMemory);
  command->memory.address = reinterpret_cast<std::uint64_t>(Address);
  command->handle = MemHandle;
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  MemAttribs->Ptag = ptag_out(inside.session(), command->memory.ptag);
  MemAttribs->EnableRdmaWrite = command->memory.enable_write != 0;
  MemAttribs->EnableRdmaRead = command->memory.enable_read != 0;
  return VIP_SUCCESS;
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address,
                               VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES* MemAttribs) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || MemHandle == 0 || MemAttribs == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kSetMemory);
  const VIP_RETURN judged = memory_attributes_in(inside, MemAttribs, command->memory);
  if (judged != VIP_SUCCESS) return judged;
  command->memory.address = reinterpret_cast<std::uint64_t>(Address);
  command->handle = MemHandle;
  outgoing::Patience patience;
  outgoing::wait_for_memory(inside.session(), MemHandle, patience);
  return command.run();
}
