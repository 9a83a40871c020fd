#include "kagent/agent/granted_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "kagent/contract/granted_segment.h"
#include "kagent/agent/hosted_stack.h"
#include "kagent/contract/wire.h"
#include "kagent/stack/remains.h"
#include "kagent/stack/tables.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace viaduct {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<std::byte> farewell(const Remains& left, const MacAddress& source,
                                std::uint16_t ether_type) {
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

Descriptor make_sealed_memory(const char* name, std::size_t bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Descriptor out(fd);
  if (!out) fail("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("seal");
  return out;
}

GrantedSegment::GrantedSegment(const StackLimits& limits)
    : limits_(limits),
      bytes_(granted_segment_bytes(limits, Tables::footprint(limits))),
      file_(make_sealed_memory("viaduct-granted", bytes_)) {
  map();
}

GrantedSegment::GrantedSegment(const StackLimits& limits, Descriptor file)
    : limits_(limits), bytes_(granted_segment_bytes(limits, Tables::footprint(limits))), file_(std::move(file)) {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) fail("fstat");
  if (status.st_size != static_cast<off_t>(bytes_)) {
    errno = EMSGSIZE;
    fail("a granted segment of other limits");
  }
  map();
}

void GrantedSegment::map() {
  const std::size_t at = granted_stack_offset(limits_);
  segment_bytes_ = bytes_ - at;
  void* const mapped = mmap(nullptr, segment_bytes_, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                            file_.get(), static_cast<off_t>(at));
  if (mapped == MAP_FAILED) fail("mmap");
  segment_ = mapped;
}

GrantedSegment::~GrantedSegment() { munmap(const_cast<void*>(segment_), segment_bytes_); }

FileNumber number_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) fail("fstat");
  return {status.st_dev, status.st_ino};
}

std::vector<std::vector<std::byte>> GrantedSegment::last_disconnects(const MacAddress& source,
                                                    std::uint16_t ether_type) const {
  std::vector<std::vector<std::byte>> out;
  const std::size_t most = std::size_t{limits_.vis} + limits_.goodbyes;
  const auto left = std::make_unique_for_overwrite<Remains[]>(most);
  // Only the rings tell of descriptors that were posted and not sent.
  const std::size_t bytes = granted_stack_offset(limits_);
  void* const rings = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  const bool mapped = rings != MAP_FAILED;
  const layout::View view = mapped ? layout::View(rings, granted_capacity(limits_)) : layout::View();
  const std::size_t count = remains(segment_, limits_, {left.get(), most}, view);
  if (mapped) munmap(rings, bytes);
  for (const Remains& each : std::span(left.get(), count)) {
    out.push_back(farewell(each, source, ether_type));
  }
  return out;
}

}  // namespace viaduct
