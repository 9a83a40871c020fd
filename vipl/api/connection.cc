// Connections, client/server and peer to peer.
#include "vipl/api/attributes.h"
#include "vipl/session/command.h"
#include "vipl/session/outgoing.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/work_queue.h"

using namespace viaduct::vipl;
using viaduct::layout::Op;

namespace {

// Names the VI of a inside in a command. False if there is none.
bool name_vi(const SessionGuard& inside, Command& command) {
  return WorkQueue(inside.session(), inside.handle(), WorkQueue::Side::kSend).name(command.body());
}

// A command about one VI that brings the peer's attributes.
VIP_RETURN ask_for_peer(VIP_VI_HANDLE handle, Op op, VIP_VI_ATTRIBUTES* attributes) {
  const SessionGuard inside(handle, Kind::kVi);
  if (!inside || attributes == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), op);
  if (!name_vi(inside, command)) return VIP_INVALID_PARAMETER;
  const VIP_RETURN result = command.run();
  if (result == VIP_SUCCESS) *attributes = peer_attributes_out(command->vi_attributes);
  return result;
}

}  // namespace

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS* LocalAddr, VIP_ULONG Timeout,
                          VIP_NET_ADDRESS* RemoteAddr, VIP_VI_ATTRIBUTES* RemoteViAttribs,
                          VIP_CONN_HANDLE* ConnHandle) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || LocalAddr == nullptr || RemoteAddr == nullptr || RemoteViAttribs == nullptr ||
      ConnHandle == nullptr) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = inside.session();
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
  const SessionGuard inside(ViHandle, Kind::kVi);
  const Handle connection(ConnHandle);
  if (!inside || !inside.owns(connection, Kind::kConnection)) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kConnectAccept);
  if (!name_vi(inside, command)) return VIP_INVALID_PARAMETER;
  command->handle = connection.driver_handle();
  return command.run();
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle) {
  const SessionGuard inside(ConnHandle, Kind::kConnection);
  if (!inside) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kConnectReject);
  command->handle = inside.handle().driver_handle();
  return command.run();
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS* LocalAddr,
                             VIP_NET_ADDRESS* RemoteAddr, VIP_ULONG Timeout,
                             VIP_VI_ATTRIBUTES* RemoteViAttribs) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside || LocalAddr == nullptr || RemoteAddr == nullptr ||
      RemoteViAttribs == nullptr || Timeout == 0) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = inside.session();
  Command command(session, Op::kConnectRequest);
  if (!name_vi(inside, command) || !address_in(session, *LocalAddr, false, command->local) ||
      !address_in(session, *RemoteAddr, true, command->remote)) {
    return VIP_INVALID_PARAMETER;
  }
  command->timeout_ms = timeout_in(Timeout);
  const VIP_RETURN result = command.run();
  if (result == VIP_SUCCESS) *RemoteViAttribs = peer_attributes_out(command->vi_attributes);
  return result;
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kDisconnect);
  if (!name_vi(inside, command)) return VIP_INVALID_PARAMETER;
  outgoing::Patience patience;
  outgoing::wait_for_vi(inside.session(), inside.handle().index(), patience);
  const VIP_RETURN result = command.run();
  if (!command.lost()) return result;
  inside.session().view.vi(inside.handle().index()).status.left.store(1);
  return VIP_SUCCESS;
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS* LocalAddr,
                                 VIP_NET_ADDRESS* RemoteAddr, VIP_ULONG Timeout) {
  const SessionGuard inside(ViHandle, Kind::kVi);
  if (!inside || LocalAddr == nullptr || RemoteAddr == nullptr) {
    return VIP_INVALID_PARAMETER;
  }
  Session& session = inside.session();
  Command command(session, Op::kPeerRequest);
  if (!name_vi(inside, command) || !address_in(session, *LocalAddr, false, command->local) ||
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
