#include "examples/viabench/case.h"

#include <sstream>

#include "examples/common/nic.h"

namespace viabench {

std::string Case::id() const {
  std::string text = what + "/" + transport;
  for (const std::string* part : {&wait, &level, &offload}) {
    if (*part != "-") text += "/" + *part;
  }
  text += "/" + std::to_string(size);
  if (what == "idle" || what == "senders" || (what != "memory" && others != 0)) text += "/" + std::to_string(others);
  return text;
}

std::string Case::encode() const {
  std::ostringstream out;
  out << what << ' ' << transport << ' ' << wait << ' ' << level << ' ' << offload << ' ' << size
      << ' ' << count << ' ' << others;
  return out.str();
}

Case Case::decode(const std::string& line) {
  std::istringstream in(line);
  Case c;
  in >> c.what >> c.transport >> c.wait >> c.level >> c.offload >> c.size >> c.count >> c.others;
  constexpr std::uint32_t kMaxSize = 1u << 20;
  constexpr std::uint32_t kMaxOthers = 1u << 14;
  if (!in || c.size > kMaxSize || c.count == 0 || c.others > kMaxOthers) {
    throw via::Failure("this is not a case of this version: " + line);
  }
  return c;
}

const Figure& figure_of(const std::string& what) {
  static constexpr Figure kLatency{"us", "us", "Latency, one way", true, true};
  static constexpr Figure kBandwidth{"gbit_s", "Gb/s", "Bandwidth, one way", false, true};
  static constexpr Figure kRate{"messages_s", "messages/s",
                                "Rate of 64-byte messages, at most 32 sends outstanding", false,
                                false};
  static constexpr Figure kConnect{"connections_s", "connections/s",
                                   "Connections, made and ended, one after the other", false,
                                   false};
  static constexpr Figure kRegister{"us", "us", "Registering and deregistering, against copying",
                                    true, false};
  static constexpr Figure kIdle{"us", "us", "Latency of 4 bytes beside idle connected VIs, one way",
                                true, false};
  static constexpr Figure kSenders{
      "gbit_s", "Gb/s", "Streams of many senders to one receiver, together", false, false};
  static constexpr Figure kMemory{"bytes", "bytes", "Memory of a program with 16 VIs", true, false};
  static constexpr Figure kCrowd{"gbit_s", "Gb/s", "Streams on many connections, together", false, false};
  static constexpr Figure kHotspot{"us", "us", "Latency of a server with many connections, one way", true, false};
  static constexpr Figure kWeb{"us", "us", "Requests to a web server", true, false};
  if (what == "streams" || what == "fanin" || what == "fanout") return kCrowd;
  if (what == "hotspot") return kHotspot;
  if (what == "web") return kWeb;
  if (what == "latency") return kLatency;
  if (what == "bandwidth") return kBandwidth;
  if (what == "rate") return kRate;
  if (what == "connect") return kConnect;
  if (what == "register") return kRegister;
  if (what == "idle") return kIdle;
  if (what == "senders") return kSenders;
  if (what == "memory") return kMemory;
  throw via::Failure("there is no measurement called " + what);
}

}  // namespace viabench
