#include "kagent/tools/viadump/printer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kagent/tools/viactl/table.h"
#include "kagent/tools/viactl/words.h"

namespace viaduct::dump {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint32_t kNoVi = 0xffffffff;

std::string with_fraction(std::uint64_t seconds, std::uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%09llu", static_cast<unsigned long long>(seconds),
                static_cast<unsigned long long>(ns));
  return text;
}

std::string flag_words(std::uint16_t flags) {
  std::string out;
  const auto add = [&](std::uint16_t flag, const char* word) {
    if ((flags & flag) == 0) return;
    if (!out.empty()) out += ",";
    out += word;
  };
  add(wire::kFlagFirst, "first");
  add(wire::kFlagLast, "last");
  add(wire::kFlagImmediate, "immediate");
  add(wire::kFlagAckNow, "ack-now");
  add(wire::kFlagPacked, "packed");
  add(wire::kFlagChecked, "checked");
  return out.empty() ? "-" : out;
}

std::string data_words(const wire::Header& header) {
  const std::size_t data = header.payload_length - wire::rdma_bytes(header.flags);
  std::string out = std::string(" ") + operation_word(header.flags) + " " + std::to_string(data) + " of " +
                    std::to_string(header.message_length) + " at " + std::to_string(header.offset);
  out += " flags " + flag_words(header.flags);
  if ((header.flags & wire::kFlagImmediate) != 0) {
    char text[24];
    std::snprintf(text, sizeof text, " immediate 0x%08x", header.immediate);
    out += text;
  }
  return out;
}

std::string disconnect_words(std::uint32_t immediate) {
  switch (static_cast<wire::Refusal>(immediate)) {
    case wire::Refusal::kNone: return "";
    case wire::Refusal::kNoDescriptor: return " because no receive was posted";
    case wire::Refusal::kDescriptor: return " because the receive descriptor would not do";
    case wire::Refusal::kProtection: return " because the RDMA target does not allow it";
    case wire::Refusal::kTransport: return " because the frames break the rules";
  }
  return " because of " + std::to_string(immediate);
}

const char* answer_word(wire::ClaimAnswer answer) {
  if (answer == wire::ClaimAnswer::kNone) return "";
  return answer == wire::ClaimAnswer::kGood ? " good" : " bad";
}

// Text that others have written, without characters that a terminal obeys.
std::string shown(const std::string& text) {
  const std::string quoted = tool::in_json(text);
  return quoted.substr(1, quoted.size() - 2);
}

// A summary of a frame's body; the fields have all of it.
std::string body_words(const Reading& reading) {
  using wire::Type;
  const auto payload = reading.decoded.payload;
  wire::ConnectBody connect{};
  wire::NameBody name{};
  wire::ClaimBody claim{};
  wire::PathBody path{};
  MacAddress address{};
  switch (reading.decoded.header.type) {
    case Type::kConnectRequest:
    case Type::kConnectAccept:
      if (!wire::decode(payload, connect)) break;
      return " request " + std::to_string(connect.request) + " of VI " + std::to_string(connect.vi) + " host " +
             address_text(connect.host) + " reliability " + std::to_string(connect.reliability) + " MTU " +
             std::to_string(connect.mtu);
    case Type::kNameQuery:
    case Type::kNameReply:
      if (!wire::decode(payload, name)) break;
      return " request " + std::to_string(name.request) + " name " +
             tool::in_json(std::string_view(name.name.data(), name.name_length));
    case Type::kClaimQuery:
    case Type::kClaimReply:
      if (!wire::decode(payload, claim)) break;
      return " request " + std::to_string(claim.request) + answer_word(claim.answer);
    case Type::kPath:
      if (!wire::decode(payload, path)) break;
      return " step " + std::to_string(static_cast<unsigned>(path.step)) + " UDP port " +
             std::to_string(path.address.port) + " token " + std::to_string(path.token);
    case Type::kConnectMoved:
    case Type::kStoppedQuery:
    case Type::kStoppedReply:
      if (!wire::decode(payload, address)) break;
      return " address " + address_text(address);
    case Type::kDisconnect: return disconnect_words(reading.decoded.header.immediate);
    case Type::kData: return data_words(reading.decoded.header);
    default: break;
  }
  return "";
}

std::string header_words(const Reading& reading) {
  const wire::Decoded& decoded = reading.decoded;
  std::string out = address_text(decoded.source) + " > " + address_text(decoded.destination) + " " +
                    type_word(decoded.header.type);
  if (decoded.header.vi != kNoVi) out += " VI " + std::to_string(decoded.header.vi);
  out += " PSN " + std::to_string(decoded.header.psn) + " ACK " + std::to_string(decoded.header.ack) + " window " +
         std::to_string(decoded.header.window);
  return out + body_words(reading);
}

// A frame whose header can't be read: its addresses, if it has them.
std::string address_words(std::span<const std::byte> frame) {
  if (frame.size() < wire::kEthernetBytes) return "?";
  MacAddress destination, source;
  std::memcpy(destination.data(), frame.data(), destination.size());
  std::memcpy(source.data(), frame.data() + destination.size(), source.size());
  return address_text(source) + " > " + address_text(destination);
}

// Adds fields as JSON. A name that is there several times becomes one array.
void add_json(const std::vector<Field>& fields, std::string& out) {
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    const auto same = [&](const Field& other) { return std::string_view(other.name) == field->name; };
    if (std::find_if(fields.begin(), field, same) != field) continue;
    std::string values;
    unsigned count = 0;
    for (auto each = field; each != fields.end(); ++each) {
      if (!same(*each)) continue;
      if (count++ != 0) values += ", ";
      values += each->is_number ? each->value : tool::in_json(each->value);
    }
    out += std::string(", \"") + field->name + "\": " + (count == 1 ? values : "[" + values + "]");
  }
}

}  // namespace

std::string Printer::text(const Context& context, const FoundFrame& frame, const Reading& reading) {
  if (style_ == Style::kJson) return json(context, frame, reading);
  std::string out = line(context, frame, reading);
  if (style_ == Style::kFields) {
    for (const Field& field : fields_of(reading)) {
      out += std::string("    viaduct.") + field.name + " " + shown(field.value) + "\n";
    }
  }
  return out;
}

std::string Printer::time_text(std::uint64_t time_ns) {
  if (time_ == TimeStyle::kClock) return tool::clock_text(time_ns, 9);
  if (time_ == TimeStyle::kEpoch) return with_fraction(time_ns / kNsPerSecond, time_ns % kNsPerSecond);
  if (first_ns_ == 0) first_ns_ = time_ns;
  const bool before = time_ns < first_ns_;
  const std::uint64_t since = before ? first_ns_ - time_ns : time_ns - first_ns_;
  return (before ? "-" : "") + with_fraction(since / kNsPerSecond, since % kNsPerSecond);
}

std::string Printer::line(const Context& context, const FoundFrame& frame, const Reading& reading) {
  std::string out = time_text(context.time_ns);
  if (!context.interface.empty()) out += " " + tool::cell(context.interface).text;
  if (context.direction != Direction::kUnknown) out += context.direction == Direction::kIn ? " in" : " out";
  out += " " + (reading.has_header ? header_words(reading) : address_words(frame.bytes));
  out += " length " + std::to_string(frame.length);
  if (frame.is_train) out += " train " + std::to_string(frame.segment);
  if (frame.is_bundled) out += " bundled";
  if (!reading.is_whole) out += " cut";
  if (reading.refusal != Refusal::kNone) out += std::string(" refused: ") + refusal_word(reading.refusal);
  if (!context.comment.empty()) out += " # " + shown(context.comment);
  return out + "\n";
}

std::string Printer::json(const Context& context, const FoundFrame& frame, const Reading& reading) const {
  std::string out = "{\"time_ns\": " + std::to_string(context.time_ns);
  if (!context.interface.empty()) out += ", \"interface\": " + tool::in_json(context.interface);
  if (context.direction != Direction::kUnknown) {
    out += context.direction == Direction::kIn ? ", \"direction\": \"in\"" : ", \"direction\": \"out\"";
  }
  if (reading.has_header) {
    out += ", \"source\": \"" + address_text(reading.decoded.source) + "\"";
    out += ", \"destination\": \"" + address_text(reading.decoded.destination) + "\"";
    out += std::string(", \"type_name\": \"") + type_word(reading.decoded.header.type) + "\"";
  }
  add_json(fields_of(reading), out);
  out += ", \"length\": " + std::to_string(frame.length);
  if (frame.is_train) out += ", \"train\": " + std::to_string(frame.segment);
  if (frame.is_bundled) out += ", \"bundled\": true";
  if (!reading.is_whole) out += ", \"cut\": true";
  if (!context.comment.empty()) out += ", \"comment\": " + tool::in_json(context.comment);
  return out + "}\n";
}

}  // namespace viaduct::dump
