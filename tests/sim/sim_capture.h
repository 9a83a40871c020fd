// Captures of a simulated network for Wireshark and viadump(1): $VIADUCT_SIM_CAPTURE names the file of the
// process's first network, FILE; the next ones write FILE.2, FILE.3 and so on.
//
// Each host is an interface. A frame is written when it arrives at its receiver's, or when it is lost, with a
// comment that says how; its time is that of the simulation. Every frame is in the file at once, as a
// simulation that fails ends without closing it.
#ifndef VIADUCT_TESTS_SIM_SIM_CAPTURE_H
#define VIADUCT_TESTS_SIM_SIM_CAPTURE_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>

#include "kagent/tools/viadump/pcapng_writer.h"
#include "xdp/port.h"

namespace viaduct {

class SimCapture {
 public:
  static constexpr char kVariable[] = "VIADUCT_SIM_CAPTURE";
  static constexpr std::uint32_t kNobody = 0xffff;  // in place of a host

  // nullptr if no capture is wanted. Ends the process if the file can't be written.
  static std::unique_ptr<SimCapture> open();
  ~SimCapture();
  SimCapture(const SimCapture&) = delete;
  SimCapture& operator=(const SimCapture&) = delete;

  void add_host(std::uint32_t number, const MacAddress& address);
  // `lost`: where, nullptr if it arrived.
  void add_frame(std::uint64_t time_ns, std::uint32_t from, std::uint32_t to, const char* lost,
                 std::span<const std::byte> frame);

 private:
  explicit SimCapture(std::FILE* file) : file_(file), writer_(file, "viaduct simulation") {}

  std::FILE* file_;
  dump::PcapngWriter writer_;
};

}  // namespace viaduct

#endif
