// The samples over raw AF_XDP: ping-pong and a one-way stream.
#ifndef VIADUCT_EXAMPLES_VIABENCH_RAW_H
#define VIADUCT_EXAMPLES_VIABENCH_RAW_H

#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

void raw_near(const Case& c, const Site& site, const std::string& where, const Reporter& report);
void raw_far(const Case& c, const Site& site, const Reporter& report);

// An interface of a host's own for raw AF_XDP: a macvlan child of the one that leads to the other
// host, so that the agent and IP keep theirs. Goes away with this object.
class RawInterface {
 public:
  // `netns`: where `parent` is; empty: here.
  RawInterface(const std::string& netns, const std::string& parent);
  ~RawInterface();
  RawInterface(const RawInterface&) = delete;
  RawInterface& operator=(const RawInterface&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::vector<std::string> ip() const;
  std::string netns_, name_ = "viabench0";
};

}  // namespace viabench

#endif
