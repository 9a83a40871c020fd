// Frames as text: a line each, with all fields below it if wanted, or an object of JSON a line.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_PRINTER_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_PRINTER_H

#include <cstdint>
#include <string>

#include "kagent/tools/viadump/found_frames.h"
#include "kagent/tools/viadump/frame_reading.h"

namespace viaduct::dump {

enum class Style { kLine, kFields, kJson };
enum class TimeStyle { kClock, kEpoch, kRelative };

// Facts known of a frame besides its bytes.
struct Context {
  std::uint64_t time_ns;
  std::string interface;  // "": not said
  Direction direction;
  std::string comment;    // "": none
};

class Printer {
 public:
  Printer(Style style, TimeStyle time) : style_(style), time_(time) {}

  // A frame as text, with "\n" at the end.
  std::string text(const Context& context, const FoundFrame& frame, const Reading& reading);

 private:
  std::string time_text(std::uint64_t time_ns);
  std::string line(const Context& context, const FoundFrame& frame, const Reading& reading);
  std::string json(const Context& context, const FoundFrame& frame, const Reading& reading) const;

  Style style_;
  TimeStyle time_;
  std::uint64_t first_ns_ = 0;  // kRelative: of the first frame; 0: there was none yet
};

}  // namespace viaduct::dump

#endif
