// One direction of the forwarder: takes frames from one port, does to them what the settings say,
// and puts them out at the other.
#ifndef VIADUCT_TESTS_LAB_FAULT_LINE_H
#define VIADUCT_TESTS_LAB_FAULT_LINE_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "tests/lab/faults.h"
#include "tests/lab/port_ring.h"

namespace viaduct::lab {

class FaultLine {
 public:
  FaultLine(int direction, PortRing& in, PortRing& out)
      : direction_(direction), in_(in), out_(out) {}

  Faults faults;

  void restart() { number_ = 0; }  // with a new seed

  // Moves some frames on; false if there was nothing to do.
  bool step(std::uint64_t now);
  // When there is something to do even if no frame comes; UINT64_MAX: never.
  std::uint64_t next_due() const;

  std::string counters();

 private:
  using Copy = std::vector<std::byte>;
  struct Held {
    std::uint64_t due;
    unsigned overtakers;  // that are still to come
    Copy frame;
  };

  void receive(std::span<std::byte> frame, std::uint64_t now);
  void release_overtaken(std::uint64_t now, bool overtaken);
  void go_on(std::span<std::byte> frame, std::uint64_t now);
  void put_out(std::span<std::byte> frame);
  Copy copy(std::span<std::byte> frame);
  void recycle(Copy frame);
  void flush();

  const int direction_;
  PortRing& in_;
  PortRing& out_;
  std::uint64_t number_ = 0;         // of the next frame
  std::uint64_t cable_free_at_ = 0;  // with a rate
  std::deque<Held> aside_;           // to be overtaken
  std::deque<Held> queue_;           // for the rate and the delay, in order
  std::uint64_t held_bytes_ = 0;
  std::vector<iovec> batch_;
  std::vector<Copy> in_batch_;  // copies that `batch_` refers to
  std::vector<Copy> spare_;

  std::uint64_t received_ = 0, forwarded_ = 0, lost_ = 0, reordered_ = 0, duplicated_ = 0,
                corrupted_ = 0, overflowed_ = 0, unsent_ = 0;
};

}  // namespace viaduct::lab

#endif
