#include "kagent/stack/frames_in.h"

namespace viaduct {

// Keeps the frame's buffer until the end of the round: the stack is done with the frame, but its data may still be on
// its way to a program.
template <class Platform>
void FramesIn<Platform>::release_later(const Frame& frame) {
  to_release_[release_count_++] = frame;
}

template <class Platform>
void FramesIn<Platform>::release_all() {
  if (release_count_ != 0) port_.release({to_release_, release_count_});
  release_count_ = 0;
}

}  // namespace viaduct
