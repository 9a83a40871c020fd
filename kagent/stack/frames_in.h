// Received frames that were looked at: the port gets them back at the end of a round.
#ifndef VIADUCT_KAGENT_STACK_FRAMES_IN_H
#define VIADUCT_KAGENT_STACK_FRAMES_IN_H

#include "kagent/stack/tables.h"

namespace viaduct {

template <class Platform>
class FramesIn {
 public:
  explicit FramesIn(typename Platform::Port& port) : port_(port) {}

  inline void release_later(const Frame& frame);
  void release_all();
  bool full() const { return release_count_ == kMaxReleases; }

 private:
  static constexpr std::uint32_t kMaxReleases = 512;  // frames to give back at the end of a round

  typename Platform::Port& port_;
  std::uint32_t release_count_ = 0;
  Frame to_release_[kMaxReleases];
};

}  // namespace viaduct

#endif
