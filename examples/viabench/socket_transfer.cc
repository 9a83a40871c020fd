#include "examples/viabench/socket_transfer.h"

#include <vector>

namespace viabench {
namespace {

// ------------------------------------------------------------------------- ping-pong

void ping(const TcpSocket& s, const Case& c, const Reporter& report) {
  std::vector<char> message(c.size);
  OneWayTimes times(c);
  for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) {
    const Clock::time_point start = Clock::now();
    s.send(message.data(), message.size());
    s.receive(message.data(), message.size());
    times.add(i, Clock::now() - start);
  }
  times.report(report);
}

void pong(const TcpSocket& s, const Case& c) {
  std::vector<char> message(c.size);
  for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) {
    s.receive(message.data(), message.size());
    s.send(message.data(), message.size());
  }
}

// ------------------------------------------------------------------------- stream

// Each message is a send() and a recv() of its own.
void pour(const TcpSocket& s, const Case& c, const Reporter& report, bool agent) {
  std::vector<char> message(c.size);
  ProcessorTime processor("near", agent);
  processor.begin();
  const StreamTime time;
  for (std::uint32_t i = 0; i < c.count; ++i) s.send(message.data(), message.size());
  char done;
  s.receive(&done, 1);
  time.report(report);
  processor.report(report);
}

void drink(const TcpSocket& s, const Case& c, const Reporter& report, bool agent) {
  std::vector<char> message(c.size);
  ProcessorTime processor("far", agent);
  for (std::uint32_t i = 0; i < c.count; ++i) {
    s.receive(message.data(), message.size());
    if (i == 0) processor.begin();
  }
  s.send("", 1);
  processor.report(report);
  report_arrivals(report, c.count, c.count, c.size);
}

}  // namespace

void transfer_near(const TcpSocket& s, const Case& c, const Reporter& report, bool agent) {
  c.what == "latency" ? ping(s, c, report) : pour(s, c, report, agent);
}

void transfer_far(const TcpSocket& s, const Case& c, const Reporter& report, bool agent) {
  c.what == "latency" ? pong(s, c) : drink(s, c, report, agent);
}

}  // namespace viabench
