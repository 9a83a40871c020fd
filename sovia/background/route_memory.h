// Findings of trials of routes, kept between processes: a program that runs again need not try again, and opens no NIC that
// it would not use.
//
//     RouteMemory memory(path);
//     const RouteMemory::Finding found = memory.recall(service, load);
//     memory.remember(service, load, {.route = RouteMemory::Route::kKernel, .until = now + ns, .wait_ns = ns});
//
// The memory is a file of one user, in a file system that lives as long as the machine runs; nobody else can read or
// write it. A finding that is lost or wrong costs a trial, so writers don't wait for each other: a record that two have
// written has a wrong check and counts as none. Without the file nothing is remembered.
//
// Not thread-safe. Takes a few system calls for each function. Times are CLOCK_MONOTONIC in ns.
#ifndef VIADUCT_SOVIA_BACKGROUND_ROUTE_MEMORY_H
#define VIADUCT_SOVIA_BACKGROUND_ROUTE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace viaduct::sovia {

class RouteMemory {
 public:
  enum class Route : std::uint32_t { kUnknown, kKernel, kLanes };

  struct Finding {
    Route route = Route::kUnknown;
    std::uint64_t until = 0;    // it counts so long
    std::uint64_t wait_ns = 0;  // until the next trial after this one
  };

  // A service is tried for each load of its own: few connections may be better off with lanes, and many not.
  static constexpr unsigned kLoads = 8;
  // Of a service with so many connections.
  static unsigned load_of(std::size_t connections);

  explicit RouteMemory(std::string path) : path_(std::move(path)) {}

  // The last finding, whether it counts still or not. `service`: a hash of all that makes the service, not 0.
  Finding recall(std::uint64_t service, unsigned load) const;
  // Whether lanes have lost against the kernel at any load, so that a new trial is better begun without them.
  bool doubts_lanes(std::uint64_t service, std::uint64_t now) const;
  void remember(std::uint64_t service, unsigned load, const Finding& finding);

 private:
  std::string path_;
};

}  // namespace viaduct::sovia

#endif
