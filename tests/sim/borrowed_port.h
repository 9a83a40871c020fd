// A port that belongs to another owner.
#ifndef VIADUCT_TESTS_SIM_BORROWED_PORT_H
#define VIADUCT_TESTS_SIM_BORROWED_PORT_H

#include <string>

#include "xdp/bulk_path.h"

namespace viaduct::sim {

class BorrowedPort : public Port {
 public:
  explicit BorrowedPort(Port& port) : port_(port) {}
  std::size_t receive(std::span<Frame> frames) override { return port_.receive(frames); }
  void release(std::span<const Frame> frames) override { port_.release(frames); }
  std::size_t reserve(std::span<Frame> frames) override { return port_.reserve(frames); }
  void submit(std::span<const Frame> frames) override { port_.submit(frames); }
  void cancel(std::span<const Frame> frames) override { port_.cancel(frames); }
  void flush() override { port_.flush(); }
  std::uint32_t mtu() const override { return port_.mtu(); }
  MacAddress address() const override { return port_.address(); }
  std::uint32_t lendable() const override { return port_.lendable(); }
  std::uint32_t backlog() const override { return port_.backlog(); }
  int descriptor() const override { return -1; }
  std::string mode() const override { return port_.mode(); }
  PortCounters counters() override { return port_.counters(); }
  bool alive() const override { return port_.alive(); }
  bool reaches(const MacAddress& to) const override { return port_.reaches(to); }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  Port& port_;
  NoBulkPath no_bulk_path_{*this};  // the owner's path is not lent
};

}  // namespace viaduct::sim

#endif
