// Connections, client/server and peer to peer.
#include "vipl/api/attributes.h"
#include "vipl/session/command.h"
#include "vipl/session/outgoing.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/work_queue.h"

using namespace viaduct::vipl;
using viaduct::layout::Op;

namespace {

// Names the VI of a visit in a command. False if there is none.
bool name_vi(const Visit& visit, Command& command) {
  return WorkQueue(visit.session(), visit.handle(), WorkQueue::Side::kSend).name(command.body());
}

// A command about one VI that brings the peer's attributes.
VIP_RETURN ask_for_peer(VIP_VI_HANDLE handle, Op op, VIP_VI_ATTRIBUTES* attributes) {
  const Visit visit(handle, Kind::kVi);
  if (!visit || attributes == nullptr) return VIP_INVALID_PARAMETER;
  Command command(visit.session(), op);
  if (!name_vi(visit, command)) return VIP_INVALID_PARAMETER;
  const VIP_RETURN result = command.run();
  if (result == VIP_SUCCESS) *attributes = peer_attributes_out(command->vi_attributes);
  return result;
}

}  // namespace

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS* LocalAddr, VIP_ULONG Timeout,
                          VIP_NET_ADDRESS* RemoteAddr, VIP_VI_ATTRIBUTES* RemoteViAttribs,
                          VIP_CONN_HANDLE* ConnHandle) {
  const Visit visit(NicHandle, Kind::kNic);
  if (!visit || LocalAddr == nullptr || RemoteAddr == nullptr || RemoteViAttribs == nullptr ||
      ConnHandle == nullptr) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = visit.session();
  Command command(session, Op::kConnectWait);
  if (!address_in(session, *LocalAddr, false, command->local)) return VIP_INVALID_PARAMETER;
  command->timeout_ms = timeout_in(Timeout);
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  address_out(command->remote, *RemoteAddr);
  *RemoteViAttribs = peer_attributes_out(command->vi_attributes);
  *ConnHandle = Handle(Kind::kConnection, session.nic_part(), command->handle).pointer();
  return VIP_SUCCESS;
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle) {
  const Visit visit(ViHandle, Kind::kVi);
  const Handle connection(ConnHandle);
  if (!visit || !visit.owns(connection, Kind::kConnection)) return VIP_INVALID_PARAMETER;
  Command command(visit.session(), Op::kConnectAccept);
  if (!name_vi(visit, command)) return VIP_INVALID_PARAMETER;
  command->handle = connection.driver_handle();
  return command.run();
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle) {
  const Visit visit(ConnHandle, Kind::kConnection);
  if (!visit) return VIP_INVALID_PARAMETER;
  Command command(visit.session(), Op::kConnectReject);
  command->handle = visit.handle().driver_handle();
  return command.run();
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS* LocalAddr,
                             VIP_NET_ADDRESS* RemoteAddr, VIP_ULONG Timeout,
                             VIP_VI_ATTRIBUTES* RemoteViAttribs) {
  const Visit visit(ViHandle, Kind::kVi);
  if (!visit || LocalAddr == nullptr || RemoteAddr == nullptr ||
      RemoteViAttribs == nullptr || Timeout == 0) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = visit.session();
  Command command(session, Op::kConnectRequest);
  if (!name_vi(visit, command) || !address_in(session, *LocalAddr, false, command->local) ||
      !address_in(session, *RemoteAddr, true, command->remote)) {
    return VIP_INVALID_PARAMETER;
  }
  command->timeout_ms = timeout_in(Timeout);
  const VIP_RETURN result = command.run();
  if (result == VIP_SUCCESS) *RemoteViAttribs = peer_attributes_out(command->vi_attributes);
  return result;
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle) {
  const Visit visit(ViHandle, Kind::kVi);
  if (!visit) return VIP_INVALID_PARAMETER;
  Command command(visit.session(), Op::kDisconnect);
  if (!name_vi(visit, command)) return VIP_INVALID_PARAMETER;
  outgoing::Patience patience;
  outgoing::wait_for_vi(visit.session(), visit.handle().index(), patience);
  const VIP_RETURN result = command.run();
  if (!command.lost()) return result;
  visit.session().view.vi(visit.handle().index()).status.left.store(1);
  return VIP_SUCCESS;
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS* LocalAddr,
                                 VIP_NET_ADDRESS* RemoteAddr, VIP_ULONG Timeout) {
  const Visit visit(ViHandle, Kind::kVi);
  if (!visit || LocalAddr == nullptr || RemoteAddr == nullptr) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = visit.session();
  Command command(session, Op::kPeerRequest);
  if (!name_vi(visit, command) || !address_in(session, *LocalAddr, false, command->local) ||
      !address_in(session, *RemoteAddr, true, command->remote)) {
    return VIP_INVALID_PARAMETER;
  }
  command->timeout_ms = timeout_in(Timeout);
  return command.run();
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES* RemoteViAttribs) {
  return ask_for_peer(ViHandle, Op::kPeerDone, RemoteViAttribs);
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES* RemoteViAttribs) {
  return ask_for_peer(ViHandle, Op::kPeerWait, RemoteViAttribs);
}
