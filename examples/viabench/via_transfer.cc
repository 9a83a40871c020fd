// Ping-pong, also beside idle VIs, and streams.
#include <algorithm>
#include <memory>
#include <vector>

#include "examples/common/stream.h"
#include "examples/viabench/via.h"
#include "examples/viabench/via_link.h"

namespace viabench {
namespace {

using via::ConnectionLost;
using via::Endpoint;
using via::Failure;
using via::milliseconds;

constexpr milliseconds kSilenceMs{kSilence};

// For messages to and fro.
Endpoint::Shape ping_shape(const Case& c) { return {c.size, std::max(c.size, 64u), 16, 16}; }

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

// VIs that are connected and do nothing.
template <typename Join>
Endpoints idle_vis(const Case& c, ViaLink& link, Join join) {
  Endpoints idle;
  for (std::uint32_t i = 0; i < c.others; ++i) {
    idle.push_back(std::make_unique<Endpoint>(link.nic(), link.attributes(),
                                              Endpoint::Shape{4, 64, 1, 1}, true));
    join(idle.back()->vi());
  }
  return idle;
}

void ping(Endpoint& end, const Case& c, bool reliable, const Reporter& report) {
  OneWayTimes times(c);
  std::uint32_t lost = 0;
  for (std::uint32_t n = 0; n < c.count + warm_up(c); ++n) {
    if (end.free_sends() == 0) end.make_room();
    const Clock::time_point start = Clock::now();
    end.send_message(n, c.size);
    VIP_DESCRIPTOR* d;
    for (;;) {
      d = end.receive(reliable ? kSilenceMs : via::kLossLimit);
      // The answer to a message that was given up as lost may still come.
      if (d == nullptr || d->CS.ImmediateData == n) break;
      end.post_receive(d);
    }
    const Clock::time_point finish = Clock::now();
    if (d == nullptr) {
      if (reliable || ++lost > 20) throw Failure("no answer comes");
      continue;
    }
    end.post_receive(d);
    end.reap();
    times.add(n, finish - start);
  }
  times.report(report);
}

void pong(Endpoint& end, const Case& c) {
  for (;;) {
    VIP_DESCRIPTOR* const d = end.receive(kSilenceMs);
    if (d == nullptr) throw Failure("no message comes");
    if (end.free_sends() == 0) end.make_room();
    end.send_message(d->CS.ImmediateData, c.size);
    end.post_receive(d);
    end.reap();
  }
}

via::Stream stream_of(const Case& c, const ViaLink& link) {
  return {c.count, via::window(c.size, link.reliable()), link.reliable()};
}

void pour(ViaLink& link, const Case& c, const Reporter& report) {
  Endpoint end(link.nic(), link.attributes(), {c.size, 64, 64, kOutstanding}, link.blocks());
  link.connect(end.vi());
  ProcessorTime processor("near", true);
  processor.begin();
  const StreamTime time;
  via::send_stream(end, stream_of(c, link), [&](std::uint32_t n) { end.send_message(n, c.size); });
  time.report(report);
  processor.report(report);
}

void drink(ViaLink& link, const Case& c, const Reporter& report) {
  const via::Stream stream = stream_of(c, link);
  // Room for the window and for the "end" behind it.
  Endpoint end(link.nic(), link.attributes(), {c.size, c.size, stream.window + 8, 64},
               link.blocks());
  ProcessorTime processor("far", true);
  link.accept(end.vi());
  bool begun = false;
  bool reported = false;
  via::take_stream(
      end, stream,
      [&](const VIP_DESCRIPTOR*, std::uint32_t) {
        if (!begun) processor.begin();
        begun = true;
      },
      [&](const via::Report& all) {
        if (!reported) {
          processor.report(report);
          report_arrivals(report, all.received, c.count, c.size);
        }
        reported = true;
      });
}

bool to_and_fro(const Case& c) { return c.what == "latency" || c.what == "idle"; }

}  // namespace

void via_near(const Case& c, const Site& site, const std::string& where, const Reporter& report) {
  ViaLink link(c, site);
  link.aim(where);
  if (!to_and_fro(c)) return pour(link, c, report);
  const Endpoints idle = idle_vis(c, link, [&](VIP_VI_HANDLE vi) { link.connect(vi); });
  Endpoint end(link.nic(), link.attributes(), ping_shape(c), link.blocks());
  link.connect(end.vi());
  ping(end, c, link.reliable(), report);
}

void via_far(const Case& c, const Site& site, const Reporter& report) {
  ViaLink link(c, site);
  link.listen(report);
  const auto serve = [&] {
    if (!to_and_fro(c)) return drink(link, c, report);
    const Endpoints idle = idle_vis(c, link, [&](VIP_VI_HANDLE vi) { link.accept(vi); });
    Endpoint end(link.nic(), link.attributes(), ping_shape(c), link.blocks());
    link.accept(end.vi());
    pong(end, c);
  };
  try {
    serve();
  } catch (const ConnectionLost&) {
    // The near end is through, or has failed and says so.
  }
}

}  // namespace viabench
