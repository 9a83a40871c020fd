#include "kagent/agent/control_messages.h"

#include <algorithm>
#include <cstring>

#include "xdp/clock.h"

namespace viaduct {
namespace {

// Requests of before there were proofs ended here.
template <class Request>
constexpr std::size_t kBytesBeforeProof = offsetof(Request, proof);
template <>
constexpr std::size_t kBytesBeforeProof<control::Adopt> = offsetof(control::Adopt, padding);
template <>
constexpr std::size_t kBytesBeforeProof<control::Attach> = offsetof(control::Attach, padding);
static_assert(kBytesBeforeProof<control::Hello> == 88 && kBytesBeforeProof<control::Adopt> == 116 &&
              kBytesBeforeProof<control::Attach> == 44);

Refused other_layout(std::uint32_t version) {
  return {vip::kNotSupported, &ServiceCounters::refused_version,
          "the agent speaks version " + std::to_string(layout::kLayoutVersion) +
              " of the segment's layout, the program " + std::to_string(version)};
}

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
  answer.checksum = limits.checksum ? 1 : 0;
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

template <class Request>
Request read_request(std::span<const std::byte> message, const char* other_length) {
  Request out;
  const bool whole = message.size() == sizeof out;
  if (!whole && message.size() != kBytesBeforeProof<Request>) throw malformed(other_length);
  std::memcpy(static_cast<void*>(&out), message.data(), message.size());
  if (!whole) out.proof = {};
  return out;
}

}  // namespace

Refused malformed(const char* how) {
  return {vip::kInvalidParameter, &ServiceCounters::refused_message,
          std::string("malformed request: ") + how};
}

control::MessageHead judge_head(std::span<const std::byte> message) {
  control::MessageHead head;
  if (message.size() < sizeof head) throw malformed("shorter than its head");
  std::memcpy(&head, message.data(), sizeof head);
  if (head.magic != control::kMagic) throw malformed("not of this protocol");
  if (head.version != control::kVersion) {
    throw Refused{vip::kNotSupported, &ServiceCounters::refused_version,
                  "the agent speaks version " + std::to_string(control::kVersion) +
                      " of the control protocol, the program " + std::to_string(head.version)};
  }
  if (head.bytes != message.size()) throw malformed("not as long as it says");
  return head;
}

control::Hello judge_hello(std::span<const std::byte> message) {
  const auto hello = read_request<control::Hello>(message, "not as long as a hello");
  if (hello.layout_version != layout::kLayoutVersion) throw other_layout(hello.layout_version);
  if (std::memchr(hello.device, '\0', sizeof hello.device) == nullptr) {
    throw malformed("the device name has no end");
  }
  if (hello.placement > static_cast<std::uint32_t>(control::Placement::kGranted)) {
    throw malformed("unknown placement");
  }
  return hello;
}

control::Adopt judge_adopt(std::span<const std::byte> message) {
  const auto adopt = read_request<control::Adopt>(message, "not as long as an adoption");
  if (adopt.layout_version != layout::kLayoutVersion) throw other_layout(adopt.layout_version);
  if (std::memchr(adopt.device, '\0', sizeof adopt.device) == nullptr) {
    throw malformed("the device name has no end");
  }
  return adopt;
}

control::Attach judge_attach(std::span<const std::byte> message) {
  const auto attach = read_request<control::Attach>(message, "not as long as an attachment");
  if (attach.layout_version != layout::kLayoutVersion) throw other_layout(attach.layout_version);
  return attach;
}

Refused no_resources(const std::exception& error) {
  return {vip::kErrorResource, &ServiceCounters::refused_resources, error.what()};
}

// The limits of a granted stack: those of the NIC's own, for one session.
StackLimits own_limits(const Nic& nic) {
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
