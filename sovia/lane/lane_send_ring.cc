#include "sovia/lane/lane_send_ring.h"

#include <cstring>
#include <numeric>
#include <utility>

namespace viaduct::sovia {

LaneSendRing::LaneSendRing(Transport& transport, const LaneOptions& options)
    : transport_(transport),
      options_(options),
      places_(places_for(options)),
      places_at_(places_.data),
      free_places_(places_.data),
      chunk_bytes_(places_.data),
      chunk_memory_(places_.data),
      order_(places_.data + places_.control + places_.writes) {
  std::iota(free_places_.rbegin(), free_places_.rend(), 0u);
}

void LaneSendRing::reap() {
  for (std::uint32_t n = transport_.completed(); n > 0 && !order_.empty(); --n) {
    if (order_.front() == Posted::kData) {
      done_bytes_ += bytes_at(done_);
      free_places_.push_back(place(done_++));
    } else if (order_.front() == Posted::kControl) {
      ++control_done_;
    } else {
      ++writes_done_;
    }
    order_.pop_front();
  }
}

std::size_t LaneSendRing::unsent() {
  reap();
  std::size_t bytes = 0;
  for (std::uint64_t p = done_; p != filled_; ++p) bytes += bytes_at(p);
  return bytes;
}

bool LaneSendRing::has_completed(std::uint64_t position) {
  if (done_ <= position) reap();
  return done_ > position;
}

void LaneSendRing::set_patient(bool patient) {
  if (std::exchange(is_patient_, patient) != patient) transport_.set_patient(patient);
}

// Credits bring completions with them. Only a lane that has used half of them waits for either, or, behind its last data, the
// kernel that goes on.
bool LaneSendRing::post_next(std::uint32_t immediate, const First* behind) {
  std::uint32_t bytes = bytes_at(posted_);
  set_patient(bytes != 0 && posted_ - done_ < options_.window / 2);
  if (behind != nullptr) {
    std::memcpy(transport_.data_chunk(place(posted_)) + bytes, behind, sizeof *behind);
    bytes += sizeof *behind;
  }
  if (!transport_.post_data(place(posted_), bytes, immediate)) return false;
  ++posted_;
  order_.push_back(Posted::kData);
  return true;
}

bool LaneSendRing::post_memory(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                               std::uint32_t immediate, std::uint64_t& position) {
  const std::uint32_t taken = take_place();
  set_patient(false);
  if (!transport_.post_memory(taken, data, bytes, memory, immediate)) {
    free_places_.push_back(taken);
    return false;
  }
  bytes_at(filled_) = bytes;
  chunk_memory_[taken] = data;
  position = filled_++;
  ++posted_;
  order_.push_back(Posted::kData);
  return true;
}

bool LaneSendRing::has_control_place() {
  if (control_posted_ - control_done_ == places_.control) reap();
  return control_posted_ - control_done_ != places_.control;
}

bool LaneSendRing::post_control(const void* body, std::uint32_t bytes, std::uint32_t immediate) {
  const auto place = static_cast<std::uint32_t>(control_posted_ % places_.control);
  if (bytes != 0) std::memcpy(transport_.control_bytes(place), body, bytes);
  set_patient(false);
  if (!transport_.post_control(place, bytes, immediate)) return false;
  ++control_posted_;
  order_.push_back(Posted::kControl);
  return true;
}

bool LaneSendRing::has_write_place() {
  if (writes_posted_ - writes_done_ == places_.writes) reap();
  return writes_posted_ - writes_done_ != places_.writes;
}

bool LaneSendRing::writes_completed(std::uint64_t posted) {
  if (writes_done_ < posted) reap();
  return writes_done_ >= posted;
}

bool LaneSendRing::copy_unsent(std::byte* to) {
  for (std::uint64_t p = done_; p != filled_; ++p) {
    const std::uint32_t bytes = bytes_at(p);
    const std::byte* const memory = chunk_memory_[place(p)];
    if (memory == nullptr) {
      std::memcpy(to, transport_.data_chunk(place(p)), bytes);
    } else if (!options_.copy(to, memory, bytes)) {
      return false;
    }
    to += bytes;
  }
  return true;
}

}  // namespace viaduct::sovia
