#include "sovia/lane/lane_pages.h"

#include <sys/mman.h>

#include "sovia/lane/transport.h"
#include "sovia/lane/vi_calls.h"
#include "sovia/process/units.h"

namespace viaduct::sovia {
namespace {

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

bool LanePages::map() {
  const std::size_t small =
      whole_pages(descriptors() * sizeof(PostedDescriptor) + places_.control * Transport::kControlBytes);
  const std::size_t bytes = small + whole_pages((places_.data + places_.receive) * kStride);
  std::byte* const base = vi_calls::map(bytes);
  if (base == nullptr) return false;
  pages_ = {base, bytes};
  data_ = reinterpret_cast<PostedDescriptor*>(base);
  chunks_ = base + small;
  return true;
}

LanePages::~LanePages() {
  if (!pages_.empty()) munmap(pages_.data(), pages_.size());
}

std::byte* LanePages::control_bytes(std::uint32_t place) const {
  return reinterpret_cast<std::byte*>(data_ + descriptors()) + std::size_t{place} * Transport::kControlBytes;
}

}  // namespace viaduct::sovia
