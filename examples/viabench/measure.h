// Shared by all samples: the site, one-way times, processor time.
#ifndef VIADUCT_EXAMPLES_VIABENCH_MEASURE_H
#define VIADUCT_EXAMPLES_VIABENCH_MEASURE_H

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/viabench/case.h"
#include "examples/viabench/lines.h"

namespace viabench {

using Clock = std::chrono::steady_clock;

inline constexpr std::chrono::seconds kSampleLimit{20};  // a sample that takes longer has failed
inline constexpr std::chrono::seconds kSilence{5};       // so has one in which nothing comes
inline constexpr std::uint32_t kOutstanding = 32;        // sends at once, frames for one kick

// Where this end is. Empty: not there.
struct Site {
  std::string plain_netns;  // the namespace with the link that has no agent; empty: this one
  std::string raw;          // interface for raw AF_XDP, in that namespace
  std::string tcp_link;     // interface whose offloads may be switched, in that namespace
  std::string device;       // the NIC for VIPL
  std::string peer;         // the other host's IP address; known at the near end
};

// Moves this process to the namespace with the plain link.
void enter_plain(const Site& site);

// Rounds before the measured ones.
inline std::uint32_t warm_up(const Case& c) { return c.count / 10 + 1; }

// One-way times of one sample: its figure is the median, as half of each round trip.
class OneWayTimes {
 public:
  explicit OneWayTimes(const Case& c) : first_(warm_up(c)) { us_.reserve(c.count); }

  void add(std::uint32_t round, Clock::duration round_trip) {
    if (round < first_) return;
    us_.push_back(std::chrono::duration<float, std::micro>(round_trip).count() / 2);
  }
  void report(const Reporter& report);

 private:
  std::uint32_t first_;
  std::vector<float> us_;
};

// How long a one-way stream takes, from the first send until the sender knows that all of it is
// there: the receiver alone would take what has gathered while it slept for a fast stream.
class StreamTime {
 public:
  void report(const Reporter& report) const {
    report.value("seconds", std::chrono::duration<double>(Clock::now() - begin_).count());
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

// Reports the messages that have arrived. `sent`: the number that should have.
void report_arrivals(const Reporter& report, std::uint64_t received, std::uint64_t sent,
                     std::uint64_t size);

// Processor time that this process, with its threads and children, and the agent of this host
// spend.
class ProcessorTime {
 public:
  // `end`: near or far, as which it is reported. `agent`: whether an agent takes part.
  ProcessorTime(std::string end, bool agent);
  void begin();
  void report(const Reporter& report) const;

 private:
  double own() const;
  double agents() const;

  std::string end_;
  std::vector<pid_t> agents_;
  double own_before_ = 0, agents_before_ = 0;
};

// The processes called viad in this network namespace.
std::vector<pid_t> find_agents();

}  // namespace viabench

#endif
