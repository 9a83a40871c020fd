// The memory of a lane's VI: descriptors, and the places that they name.
#ifndef VIADUCT_SOVIA_LANE_LANE_PAGES_H
#define VIADUCT_SOVIA_LANE_LANE_PAGES_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "sovia/lane/lane_options.h"
#include "sovia/lane/packet.h"
#include "sovia/lane/process_nic.h"

namespace viaduct::sovia {

class LanePages {
 public:
  explicit LanePages(const LanePlaces& places) : places_(places) {}
  ~LanePages();
  LanePages(const LanePages&) = delete;
  LanePages& operator=(const LanePages&) = delete;
  // False: there is no address space for it.
  bool map();

  const LanePlaces& places() const { return places_; }
  std::span<std::byte> all() const { return pages_; }

  // By place.
  PostedDescriptor* data() const { return data_; }
  PostedDescriptor* control() const { return data_ + places_.data; }
  PostedDescriptor* receive() const { return control() + places_.control; }
  PostedDescriptor* writes() const { return receive() + places_.receive; }

  // The distance from one chunk to the next. With 32 KB the beginnings of all chunks, where small messages lie, would
  // share four sets of a cache.
  static constexpr std::size_t kStride = kChunkBytes + 128;
  std::byte* data_chunk(std::uint32_t place) const { return chunks_ + place * kStride; }
  std::byte* receive_chunk(std::uint32_t place) const { return data_chunk(places_.data + place); }
  std::byte* control_bytes(std::uint32_t place) const;

 private:
  std::size_t descriptors() const { return places_.data + places_.control + places_.receive + places_.writes; }

  const LanePlaces places_;
  std::span<std::byte> pages_;
  PostedDescriptor* data_ = nullptr;
  std::byte* chunks_ = nullptr;
};

}  // namespace viaduct::sovia

#endif
