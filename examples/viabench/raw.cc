#include "examples/viabench/raw.h"

#include <cstdio>

#include "examples/common/nic.h"
#include "examples/viabench/raw_socket.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;

enum Kind : std::uint8_t { kData = 1, kLast = 2 };

constexpr std::chrono::milliseconds kLost{200};   // a frame that takes longer will not come
constexpr std::chrono::milliseconds kAnswer{20};  // to the last frame, before it is repeated

Mac mac_of(const std::string& where) {
  Mac mac;
  unsigned a[6];
  if (std::sscanf(where.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x", &a[0], &a[1], &a[2], &a[3], &a[4],
                  &a[5]) != 6) {
    throw Failure("the far end says no address");
  }
  for (std::size_t i = 0; i < 6; ++i) mac[i] = static_cast<std::uint8_t>(a[i]);
  return mac;
}

// Spins until a frame has come; an empty answer when none did in time.
RawSocket::Received await(RawSocket& s, std::uint32_t most, Clock::duration limit) {
  Clock::time_point end{};
  for (std::uint32_t i = 1;; ++i) {
    const RawSocket::Received received = s.receive(most);
    if (received.frames > 0) return received;
    if (i % 4096 != 0) continue;
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + limit;
    if (now >= end) return received;
  }
}

// The far end answers. It may have no room for a frame while it waits for a processor.
void say_last(RawSocket& s, const Mac& to) {
  const Clock::time_point limit = Clock::now() + kSilence;
  do {
    s.queue(to, 0, kLast);
    s.kick();
    for (RawSocket::Received r; (r = await(s, 1, kAnswer)).frames > 0;) {
      if (r.kind == kLast) return;
    }
  } while (Clock::now() < limit);
  throw Failure("the far end does not come to an end");
}

// The received frames. A last frame is answered, and does not count.
RawSocket::Received next(RawSocket& s, std::uint32_t most) {
  RawSocket::Received received = await(s, most, kSilence);
  if (received.frames == 0) throw Failure("no frames come");
  if (received.kind == kLast) {
    s.queue(received.from, 0, kLast);
    s.flush();
    --received.frames;
  }
  return received;
}

void ping(RawSocket& s, const Mac& to, const Case& c, const Reporter& report) {
  OneWayTimes times(c);
  std::uint32_t lost = 0;
  for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) {
    const Clock::time_point start = Clock::now();
    s.queue(to, c.size, kData);
    s.kick();
    if (await(s, 1, kLost).frames > 0) {
      times.add(i, Clock::now() - start);
    } else if (++lost > 20) {
      throw Failure("frames are lost");
    }
  }
  say_last(s, to);
  times.report(report);
}

void pong(RawSocket& s, const Case& c) {
  for (;;) {
    const RawSocket::Received r = next(s, 1);
    if (r.kind == kLast) return;
    s.queue(r.from, c.size, kData);
    s.kick();
  }
}

void blast(RawSocket& s, const Mac& to, const Case& c, const Reporter& report) {
  ProcessorTime processor("near", false);
  processor.begin();
  const StreamTime time;
  for (std::uint32_t i = 1; i <= c.count; ++i) {
    s.queue(to, c.size, kData);
    if (i % kOutstanding == 0) s.kick();
  }
  s.flush();
  time.report(report);
  processor.report(report);
  say_last(s, to);
}

void sink(RawSocket& s, const Case& c, const Reporter& report) {
  std::uint64_t arrived = 0;
  ProcessorTime processor("far", false);
  RawSocket::Received r;
  do {
    r = next(s, 64);
    if (arrived == 0) processor.begin();
    arrived += r.frames;
  } while (r.kind != kLast);
  processor.report(report);
  report_arrivals(report, arrived, c.count, c.size);
}

}  // namespace

void raw_near(const Case& c, const Site& site, const std::string& where, const Reporter& report) {
  enter_plain(site);
  RawSocket s(site.raw);
  const Mac to = mac_of(where);
  c.what == "latency" ? ping(s, to, c, report) : blast(s, to, c, report);
}

void raw_far(const Case& c, const Site& site, const Reporter& report) {
  enter_plain(site);
  if (site.raw.empty()) throw Failure("the server was started without --interface");
  RawSocket s(site.raw);
  report.ready(via::address_text(s.address().data()));
  c.what == "latency" ? pong(s, c) : sink(s, c, report);
}

// ------------------------------------------------------------------------- the interface

RawInterface::RawInterface(const std::string& netns, const std::string& parent) : netns_(netns) {
  std::vector<std::string> command = ip();
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> all = ip();
    all.insert(all.end(), more.begin(), more.end());
    std::string output;
    if (run_program(all, &output) != 0) throw Failure("raw AF_XDP: " + output);
  };
  // One may be left over from a run that was killed.
  command.insert(command.end(), {"link", "delete", name_});
  std::string ignored;
  run_program(command, &ignored);
  run({"link", "add", "link", parent, "name", name_, "type", "macvlan", "mode", "bridge"});
  try {
    // Nothing but frames of the measurement: no neighbour discovery, no router solicitations.
    run({"link", "set", "dev", name_, "addrgenmode", "none", "arp", "off"});
    run({"link", "set", "dev", name_, "up"});
  } catch (...) {
    command = ip();
    command.insert(command.end(), {"link", "delete", name_});
    run_program(command, &ignored);
    throw;
  }
}

RawInterface::~RawInterface() {
  std::vector<std::string> command = ip();
  command.insert(command.end(), {"link", "delete", name_});
  std::string ignored;
  try {
    run_program(command, &ignored);
  } catch (const Failure&) {
    // Left behind; the next run deletes it.
  }
}

std::vector<std::string> RawInterface::ip() const {
  if (netns_.empty()) return {"ip"};
  return {"ip", "-n", netns_};
}

}  // namespace viabench
