#include "kagent/agent/sessions/hello_answer.h"

#include <algorithm>
#include <cstring>

#include "xdp/clock.h"

namespace viaduct {
namespace {

void describe_granted(const Session::Granted& granted, const StackLimits& limits,
                      control::HelloAnswer& answer) {
  answer.placement = static_cast<std::uint32_t>(control::Placement::kGranted);
  answer.port = granted.held.port->layout();
  answer.nic.native_mtu = answer.port.mtu;
  answer.trains = granted.held.port->train_address();
  const MacAddress control_session = granted.held.nic->granter()->control_session();
  std::copy(control_session.begin(), control_session.end(), answer.control_session);
  answer.keepalive_ms = static_cast<std::uint32_t>(limits.keepalive_ns / kNsPerMs);
  answer.peer_timeout_ms = static_cast<std::uint32_t>(limits.peer_timeout_ns / kNsPerMs);
  answer.stopped_peer_ms = static_cast<std::uint32_t>(limits.stopped_peer_ns / kNsPerMs);
  answer.checksum = limits.train_checksum ? 2 : limits.checksum ? 1 : 0;
  answer.granted_vis = limits.vis;
  answer.granted_cqs = limits.cqs;
  answer.granted_slots = limits.slots;
  answer.granted_regions = limits.regions;
  answer.granted_ptags = limits.ptags;
  answer.granted_peers = limits.peers;
  answer.granted_requests = limits.requests;
  answer.granted_goodbyes = limits.goodbyes;
  answer.granted_held = limits.held;
  answer.granted_segment_bytes = granted.granted_segment->bytes();
}

}  // namespace

StackLimits own_limits(const AgentNic& nic) {
  StackLimits out = nic.limits();
  out.sessions = 1;
  out.claims = 0;
  out.members = layout::kMembers;
  return out;
}

control::HelloAnswer describe(const Session& session, const Config& config) {
  control::HelloAnswer answer;
  std::memset(static_cast<void*>(&answer), 0, sizeof answer);
  answer.head = control::MessageHead{};
  answer.head.kind = static_cast<std::uint16_t>(control::Kind::kHello);
  answer.head.bytes = sizeof answer;
  answer.head.result = vip::kSuccess;
  answer.capacity = session.nic().stack().capacity();
  answer.segment_bytes = session.segment_bytes();
  answer.busy_poll_us = config.spin_us;
  answer.reattach_ms = config.granted.reattach_ms;
  answer.nic = session.nic().attributes();
  answer.placement = static_cast<std::uint32_t>(control::Placement::kHosted);
  std::memcpy(answer.host, answer.nic.address, sizeof answer.host);
  std::memcpy(answer.control_session, answer.nic.address, sizeof answer.control_session);
  answer.family = session.family();
  answer.member = 0;
  answer.program_id = session.nic().stack().id_of(session.number());
  if (session.granted() != nullptr) {
    describe_granted(*session.granted(), own_limits(session.nic()), answer);
  }
  return answer;
}

}  // namespace viaduct
