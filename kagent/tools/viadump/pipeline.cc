#include "kagent/tools/viadump/pipeline.h"

#include <algorithm>
#include <stdexcept>

namespace viaduct::dump {
namespace {

constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

// Bytes of a frame that are not data of a message.
std::size_t header_bytes(const Reading& reading, std::size_t length) {
  if (!reading.has_header) return std::min(length, kBefore);
  const wire::Header& header = reading.decoded.header;
  if (header.type != wire::Type::kData) return length;
  return std::min(length, kBefore + wire::rdma_bytes(header.flags));
}

}  // namespace

Pipeline::Pipeline(PipelineOptions options, std::FILE* print, PcapngWriter* writer, AgentPrograms* programs)
    : options_(std::move(options)),
      print_(print),
      writer_(writer),
      programs_(programs),
      printer_(options_.style, options_.time) {}

bool Pipeline::take(PacketView packet, const std::vector<CapturedInterface>& interfaces) {
  const std::vector<Found> found = read(packet);
  if (packet.direction == Direction::kUnknown && !found.empty() && found[0].reading.has_header) {
    packet.direction = endpoints_.direction_of(found[0].reading.decoded);
  }
  if (std::none_of(found.begin(), found.end(), [](const Found& each) { return each.wanted; })) return true;
  ++packets_;
  if (print_ != nullptr) print(packet, found, interfaces);
  if (writer_ != nullptr) write(packet, found, interfaces);
  return packets_ != options_.count;
}

std::vector<Pipeline::Found> Pipeline::read(const PacketView& packet) {
  std::vector<Found> out;
  const std::vector<FoundFrame> frames = find_frames(packet, options_.ether_type);
  out.reserve(frames.size());
  for (const FoundFrame& frame : frames) {
    Reading reading = read_frame(frame.bytes, frame.length);
    if (reading.has_header) {
      endpoints_.learn(reading.decoded);
      // The frames of a datagram are for one program, as a rule.
      const bool may_ask = programs_ != nullptr && frame.segment == 0;
      if (may_ask && endpoints_.program_of(reading.decoded) == nullptr) programs_->refresh(endpoints_);
    }
    const bool wanted = options_.filter.fits(reading, endpoints_);
    frames_ += wanted ? 1 : 0;
    out.push_back({frame, reading, wanted});
  }
  return out;
}

void Pipeline::print(const PacketView& packet, const std::vector<Found>& found,
                     const std::vector<CapturedInterface>& interfaces) {
  Context context{packet.time_ns, "", packet.direction, std::string(packet.comment)};
  if (interfaces.size() > 1) context.interface = interfaces[packet.interface].name;
  for (const Found& each : found) {
    if (!each.wanted) continue;
    // A packet's own comment is on its first frame.
    if ((packet.comment.empty() || each.frame.is_bundled) && each.reading.has_header) {
      context.comment = endpoints_.comment_on(each.reading.decoded);
    }
    const std::string text = printer_.text(context, each.frame, each.reading);
    if (std::fwrite(text.data(), 1, text.size(), print_) != text.size()) throw std::runtime_error("can't write");
  }
}

void Pipeline::begin(const std::vector<CapturedInterface>& interfaces) {
  if (writer_ == nullptr) return;
  for (; written_interfaces_ < interfaces.size(); ++written_interfaces_) {
    CapturedInterface interface = interfaces[written_interfaces_];
    if (options_.snap_length != 0) interface.snap_length = options_.snap_length;
    writer_->add_interface(interface);
  }
}

void Pipeline::write(PacketView packet, const std::vector<Found>& found,
                     const std::vector<CapturedInterface>& interfaces) {
  begin(interfaces);
  std::string comment;
  if (packet.comment.empty()) packet.comment = comment = comment_on(found);
  packet.bytes = packet.bytes.first(kept_bytes(packet, found));
  writer_->write(packet);
}

// The comment on a packet. If it has several frames, the first one that is wanted says whose they are.
std::string Pipeline::comment_on(const std::vector<Found>& found) const {
  std::string out;
  const auto first = std::find_if(found.begin(), found.end(), [](const Found& each) { return each.wanted; });
  if (first != found.end() && first->reading.has_header) out = endpoints_.comment_on(first->reading.decoded);
  for (const Found& each : found) {
    if (each.reading.refusal == Refusal::kNone) continue;
    if (!out.empty()) out += "; ";
    out += std::string("a receiver drops this frame: ") + refusal_word(each.reading.refusal);
    break;
  }
  return out;
}

// How much of a packet is kept. It can only be cut at its end: if a datagram has several frames, the first one's
// header is kept.
std::size_t Pipeline::kept_bytes(const PacketView& packet, const std::vector<Found>& found) const {
  std::size_t out = packet.bytes.size();
  if (options_.headers_only) {
    out = std::min(out, found[0].frame.at + header_bytes(found[0].reading, found[0].frame.length));
  }
  return options_.snap_length == 0 ? out : std::min<std::size_t>(out, options_.snap_length);
}

}  // namespace viaduct::dump
