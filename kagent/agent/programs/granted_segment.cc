#include "kagent/agent/programs/granted_segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "kagent/agent/programs/program_files.h"
#include "kagent/contract/granted_segment.h"
#include "kagent/stack/hosted_stack.h"
#include "kagent/contract/wire.h"
#include "kagent/stack/remains.h"
#include "kagent/stack/tables.h"

namespace viaduct {
namespace {

using Frames = std::vector<std::vector<std::byte>>;

constexpr std::uint32_t kMostDrafted = 1 << 20;  // bytes of one program that its agent sends
constexpr std::uint32_t kLeastPayload = 64;      // of a frame

// The frames of one program's end.
class LastFrames {
 public:
  LastFrames(const MacAddress& source, std::uint16_t ether_type, std::uint32_t mtu, bool drafts)
      : source_(source), ether_type_(ether_type), most_payload_(wire::payload_in(mtu)), drafts_(drafts) {}

  void add(Remains left) {
    if (left.draft.bytes != 0 && !(drafts_ && add_draft(left))) ++left.psn;
    wire::Header header = header_of(left, wire::Type::kDisconnect);
    header.psn = left.psn;
    add(left, header, nullptr);
  }
  Frames take() { return std::move(frames_); }

 private:
  static wire::Header header_of(const Remains& left, wire::Type type) {
    wire::Header header{type};
    header.vi = left.vi;
    header.key = left.key;
    header.ack = left.ack;
    return header;
  }

  // False: the draft is not sent. The data is a program's, and so is all that the segment says of it.
  bool add_draft(Remains& left) {
    const Draft& draft = left.draft;
    if (left.payload < kLeastPayload || left.payload > most_payload_ || drafted_ + draft.bytes > kMostDrafted) return false;
    drafted_ += draft.bytes;
    wire::Header header = header_of(left, wire::Type::kData);
    header.message_length = draft.bytes;
    header.immediate = draft.immediate;
    for (std::uint32_t at = 0; at < draft.bytes; at += left.payload, ++left.psn) {
      const std::uint32_t here = std::min<std::uint32_t>(left.payload, draft.bytes - at);
      header.flags = wire::kOpSend | wire::kFlagImmediate | wire::kFlagChecked;
      if (at == 0) header.flags |= wire::kFlagFirst;
      if (at + here == draft.bytes) header.flags |= wire::kFlagLast;
      header.psn = left.psn;
      header.offset = at;
      header.payload_length = static_cast<std::uint16_t>(here);
      add(left, header, draft.data + at);
    }
    return true;
  }

  void add(const Remains& left, const wire::Header& header, const std::byte* payload) {
    constexpr std::size_t kAround = wire::kEthernetBytes + wire::kHeaderBytes + wire::kChecksumBytes;
    std::vector<std::byte> frame(std::max(wire::kMinFrameBytes, kAround + header.payload_length));
    if (payload != nullptr) {
      std::memcpy(frame.data() + wire::kEthernetBytes + wire::kHeaderBytes, payload, header.payload_length);
    }
    frame.resize(wire::encode(header, left.peer, source_, ether_type_, frame.data()));
    frames_.push_back(std::move(frame));
  }

  const MacAddress source_;
  const std::uint16_t ether_type_;
  const std::uint32_t most_payload_;
  const bool drafts_;
  std::uint32_t drafted_ = 0;
  Frames frames_;
};

}  // namespace

GrantedSegment::GrantedSegment(const StackLimits& limits)
    : limits_(limits),
      bytes_(granted_segment_bytes(limits, Tables::footprint(limits))),
      file_(make_sealed_memory("viaduct-granted", bytes_)) {
  map();
}

GrantedSegment::GrantedSegment(const StackLimits& limits, Descriptor file)
    : limits_(limits), bytes_(granted_segment_bytes(limits, Tables::footprint(limits))), file_(std::move(file)) {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) fail_by_errno("fstat");
  if (status.st_size != static_cast<off_t>(bytes_)) {
    errno = EMSGSIZE;
    fail_by_errno("a granted segment of other limits");
  }
  map();
}

void GrantedSegment::map() {
  const std::size_t at = granted_stack_offset(limits_);
  segment_bytes_ = bytes_ - at;
  void* const mapped = mmap(nullptr, segment_bytes_, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                            file_.get(), static_cast<off_t>(at));
  if (mapped == MAP_FAILED) fail_by_errno("mmap");
  segment_ = mapped;
}

GrantedSegment::~GrantedSegment() { munmap(const_cast<void*>(segment_), segment_bytes_); }

Frames GrantedSegment::last_frames(const MacAddress& source, std::uint16_t ether_type, std::uint32_t mtu,
                                   bool drafts) const {
  std::vector<Remains> left(most_remains(segment_, limits_));
  // Only the rings tell of what was posted or drafted, and not sent.
  const std::size_t bytes = granted_stack_offset(limits_);
  void* const rings = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  const bool mapped = rings != MAP_FAILED;
  const layout::View view = mapped ? layout::View(rings, granted_capacity(limits_)) : layout::View();
  left.resize(remains(segment_, limits_, left, view));
  LastFrames frames(source, ether_type, mtu, drafts);
  for (const Remains& each : left) frames.add(each);
  if (mapped) munmap(rings, bytes);
  return frames.take();
}

}  // namespace viaduct
