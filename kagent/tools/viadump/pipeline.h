// Handles each captured packet: its frames are found, read and judged by the filter; wanted ones are
// written to a file, or printed, or both.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_PIPELINE_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_PIPELINE_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "kagent/tools/viadump/agent_programs.h"
#include "kagent/tools/viadump/endpoints.h"
#include "kagent/tools/viadump/filter.h"
#include "kagent/tools/viadump/packet.h"
#include "kagent/tools/viadump/pcapng_writer.h"
#include "kagent/tools/viadump/printer.h"

namespace viaduct::dump {

struct PipelineOptions {
  std::uint16_t ether_type = wire::kDefaultEtherType;
  Filter filter;
  std::uint32_t snap_length = 0;    // bytes of a packet that are kept at most; 0: all
  bool headers_only = false;        // without the data of messages
  std::uint64_t count = 0;          // packets; 0: no limit
  Style style = Style::kLine;
  TimeStyle time = TimeStyle::kClock;
};

class Pipeline {
 public:
  // `print`, `writer` and `programs` may be nullptr.
  Pipeline(PipelineOptions options, std::FILE* print, PcapngWriter* writer, AgentPrograms* programs);

  // Tells the file of interfaces before there are packets.
  void begin(const std::vector<CapturedInterface>& interfaces);
  // False when no more are wanted. `interfaces` are those of the packets' source: it may grow.
  bool take(PacketView packet, const std::vector<CapturedInterface>& interfaces);

  std::uint64_t packets() const { return packets_; }  // that were wanted
  std::uint64_t frames() const { return frames_; }

 private:
  struct Found {
    FoundFrame frame;
    Reading reading;
    bool wanted;
  };

  std::vector<Found> read(const PacketView& packet);
  void print(const PacketView& packet, const std::vector<Found>& found, const std::vector<CapturedInterface>& interfaces);
  void write(PacketView packet, const std::vector<Found>& found, const std::vector<CapturedInterface>& interfaces);
  std::string comment_on(const std::vector<Found>& found) const;
  std::size_t kept_bytes(const PacketView& packet, const std::vector<Found>& found) const;

  PipelineOptions options_;
  std::FILE* print_;
  PcapngWriter* writer_;
  AgentPrograms* programs_;
  Printer printer_;
  Endpoints endpoints_;
  std::size_t written_interfaces_ = 0;
  std::uint64_t packets_ = 0, frames_ = 0;
};

}  // namespace viaduct::dump

#endif
