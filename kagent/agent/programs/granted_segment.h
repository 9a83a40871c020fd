// The agent's end of a granted stack's granted segment (granted_segment.h): makes the file, and reads
// what is left in it when the program is gone, or does not drive its stack. Whatever it says may be
// nonsense, and may change while it is read.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_GRANTED_SEGMENT_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_GRANTED_SEGMENT_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "xdp/descriptor.h"
#include "kagent/agent/programs/heartbeat.h"
#include "kagent/stack/remains.h"
#include "kagent/contract/stack_limits.h"
#include "xdp/port.h"

namespace viaduct {

class GrantedSegment {
 public:
  explicit GrantedSegment(const StackLimits& limits);  // throws std::system_error
  ~GrantedSegment();
  GrantedSegment(const GrantedSegment&) = delete;
  GrantedSegment& operator=(const GrantedSegment&) = delete;
  // A segment that an earlier agent has made. Throws std::system_error if its size is not that of these limits.
  GrantedSegment(const StackLimits& limits, Descriptor file);

  int file() const { return file_.get(); }
  // The part of the segment that belongs to the program's stack.
  const void* stack() const { return segment_; }
  const StackLimits& limits() const { return limits_; }
  std::size_t bytes() const { return bytes_; }

  // The frames that the stack's peers should get from `source`: of each connection a DISCONNECT. Whole, padding included.
  std::vector<std::vector<std::byte>> last_frames(const MacAddress& source, std::uint16_t ether_type) const;

  // As Heartbeat::stopped().
  std::optional<Remains> stopped(std::uint32_t vi, std::uint64_t key, std::uint64_t now) {
    return heartbeat_.stopped(segment_, limits_, vi, key, now);
  }

 private:
  void map();

  StackLimits limits_;
  std::size_t bytes_;
  Descriptor file_;
  const void* segment_ = nullptr;  // the stack's
  std::size_t segment_bytes_ = 0;
  Heartbeat heartbeat_;
};

}  // namespace viaduct

#endif
