#include "kagent/stack/frames_in.h"

namespace viaduct {

// The frame is looked at no more, but data in it may still be on its way to a program.
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
