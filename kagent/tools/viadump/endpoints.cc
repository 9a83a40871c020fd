#include "kagent/tools/viadump/endpoints.h"

namespace viaduct::dump {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;  // a destination VI that stands for none

bool has_connect_body(wire::Type type) {
  return type == wire::Type::kConnectRequest || type == wire::Type::kConnectAccept;
}

}  // namespace

void Endpoints::learn(const wire::Decoded& decoded) {
  wire::ConnectBody body{};
  if (decoded.header.type != wire::Type::kConnectAccept || !wire::decode(decoded.payload, body)) return;
  connect({decoded.source, body.vi}, {decoded.destination, decoded.header.vi});
}

// Notes that two VIs are connected. A VI has one peer; the peer that it had before may have another one by now.
void Endpoints::connect(const Endpoint& one, const Endpoint& other) {
  peers_[one] = other;
  peers_[other] = one;
}

void Endpoints::set_program(const Endpoint& endpoint, Program program) { programs_[endpoint] = std::move(program); }

std::optional<Endpoint> Endpoints::sender_of(const wire::Decoded& decoded) const {
  const wire::Header& header = decoded.header;
  wire::ConnectBody body{};
  if (has_connect_body(header.type) && wire::decode(decoded.payload, body)) return Endpoint{decoded.source, body.vi};
  const auto found = peers_.find({decoded.destination, header.vi});
  if (found == peers_.end() || found->second.address != decoded.source) return std::nullopt;
  return found->second;
}

Ends Endpoints::ends_of(const wire::Decoded& decoded) const {
  Ends out;
  if (const auto sender = sender_of(decoded)) out.from = sender->vi;
  if (decoded.header.vi != kNone) out.to = decoded.header.vi;
  return out;
}

Direction Endpoints::direction_of(const wire::Decoded& decoded) const {
  if (local_.contains(decoded.source)) return Direction::kOut;
  return local_.contains(decoded.destination) ? Direction::kIn : Direction::kUnknown;
}

const Program* Endpoints::find(const Endpoint& endpoint) const {
  const auto found = programs_.find(endpoint);
  return found == programs_.end() ? nullptr : &found->second;
}

const Program* Endpoints::program_of(const wire::Decoded& decoded) const {
  if (const auto sender = sender_of(decoded)) {
    if (const Program* const program = find(*sender)) return program;
  }
  return find({decoded.destination, decoded.header.vi});
}

bool Endpoints::is_of(const wire::Decoded& decoded, std::uint32_t process) const {
  const auto is = [&](const Endpoint& endpoint) {
    const Program* const program = find(endpoint);
    return program != nullptr && program->process == process;
  };
  const auto sender = sender_of(decoded);
  return (sender && is(*sender)) || is({decoded.destination, decoded.header.vi});
}

std::string Endpoints::name_of(const Endpoint& endpoint) const {
  std::string out = "VI " + std::to_string(endpoint.vi);
  if (const Program* const program = find(endpoint)) {
    out += " of " + program->name + " (" + std::to_string(program->process) + ")";
  }
  return out;
}

std::string Endpoints::comment_on(const wire::Decoded& decoded) const {
  const std::optional<Endpoint> sender = sender_of(decoded);
  const Endpoint receiver{decoded.destination, decoded.header.vi};
  if (decoded.header.vi == kNone) return sender ? "from " + name_of(*sender) : "";
  if (!sender && find(receiver) == nullptr) return "";
  return (sender ? name_of(*sender) + " to " : "to ") + name_of(receiver);
}

}  // namespace viaduct::dump
