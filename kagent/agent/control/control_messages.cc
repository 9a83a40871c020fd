#include "kagent/agent/control/control_messages.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "kagent/contract/session_layout.h"

namespace viaduct {
namespace {

// The bytes of a request from before there were proofs.
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

control::AskNic judge_ask_nic(std::span<const std::byte> message) {
  control::AskNic ask;
  if (message.size() != sizeof ask) throw malformed("not as long as a question for a NIC");
  std::memcpy(&ask, message.data(), sizeof ask);
  if (std::memchr(ask.device, '\0', sizeof ask.device) == nullptr) throw malformed("the device name has no end");
  return ask;
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

}  // namespace viaduct
