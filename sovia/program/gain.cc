#include "sovia/program/gain.h"

#include <errno.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "sovia/process/counters.h"
#include "sovia/process/options.h"

namespace viaduct::sovia::gain {
namespace {

// The most frequent reason why connections went through the kernel; nullptr: there is none.
const char* first_reason() {
  std::size_t most = 0;
  for (std::size_t i = 1; i < kReasons; ++i) {
    if (counters::falls(static_cast<Reason>(i)) > counters::falls(static_cast<Reason>(most))) most = i;
  }
  return most == 0 ? nullptr : text_of(static_cast<Reason>(most));
}

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

void tell() {
  const std::uint64_t connections = counters::value(Counter::kConnections);
  if (options().stats == 0 || connections == 0) return;
  const std::uint64_t lane = counters::value(Counter::kBytesSentLane) + counters::value(Counter::kBytesReceivedLane);
  const std::uint64_t kernel =
      counters::value(Counter::kBytesSentKernel) + counters::value(Counter::kBytesReceivedKernel);
  const std::uint64_t packets = counters::value(Counter::kDataSent) + counters::value(Counter::kDataReceived);
  const double part = lane + kernel == 0 ? 0 : 100.0 * static_cast<double>(lane) / static_cast<double>(lane + kernel);
  const char* const reason = first_reason();
  char text[448];
  std::snprintf(text, sizeof text,
                "%s (%d): connections %llu, lanes %llu; %.1f of %.1f MB (%.0f %%) past the kernel, in %llu packets%s%s",
                program_invocation_short_name, static_cast<int>(getpid()), static_cast<unsigned long long>(connections),
                static_cast<unsigned long long>(counters::value(Counter::kLanesOpened)), megabytes(lane),
                megabytes(lane + kernel), part, static_cast<unsigned long long>(packets),
                reason == nullptr ? "" : "; the rest through the kernel, most often as: ", reason == nullptr ? "" : reason);
  tell_on_stderr(text);
}

}  // namespace viaduct::sovia::gain
