#include "kagent/agent/programs/granted_segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
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

std::vector<std::byte> farewell(const Remains& left, const MacAddress& source, std::uint16_t ether_type) {
  wire::Header header{wire::Type::kDisconnect};
  header.vi = left.vi;
  header.key = left.key;
  header.psn = left.psn;
  header.ack = left.ack;
  std::vector<std::byte> out(wire::kMinFrameBytes);
  out.resize(wire::encode(header, left.peer, source, ether_type, out.data()));
  return out;
}

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

Frames GrantedSegment::last_frames(const MacAddress& source, std::uint16_t ether_type) const {
  std::vector<Remains> left(most_remains(segment_, limits_));
  // Only the rings tell of what was posted and not sent.
  const std::size_t bytes = granted_stack_offset(limits_);
  void* const rings = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  const bool mapped = rings != MAP_FAILED;
  const layout::View view = mapped ? layout::View(rings, granted_capacity(limits_)) : layout::View();
  left.resize(remains(segment_, limits_, left, view));
  if (mapped) munmap(rings, bytes);
  Frames frames;
  for (const Remains& each : left) frames.push_back(farewell(each, source, ether_type));
  return frames;
}

}  // namespace viaduct
