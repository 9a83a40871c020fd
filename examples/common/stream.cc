#include "examples/common/stream.h"

#include <algorithm>
#include <thread>

namespace via {
namespace {

constexpr milliseconds kRefusedDelay{20};

// False if no credit has come in time. Credits count up, so a lost one does no harm.
bool take_credits(Endpoint& end, milliseconds limit, std::uint32_t& acknowledged) {
  bool any = false;
  for (;;) {
    VIP_DESCRIPTOR* const d = end.receive(any ? milliseconds::zero() : limit);
    if (d == nullptr) return any;
    acknowledged = std::max(acknowledged, d->CS.ImmediateData);
    end.post_receive(d);
    any = true;
  }
}

Report ask_for_report(Endpoint& end, bool reliable) {
  const int tries = reliable ? 1 : 25;
  for (int i = 0; i < tries; ++i) {
    end.make_room();
    end.send_number(kEnd);
    for (;;) {
      VIP_DESCRIPTOR* const d = end.receive(reliable ? kSilenceLimit : kLossLimit);
      if (d == nullptr) break;
      if (d->CS.ImmediateData == kEnd) {
        if (d->CS.Length != Report::kBytes) throw Failure("the server's report is malformed");
        return Report::decode(end.data(d));
      }
      end.post_receive(d);
    }
    if (stopped) throw Failure("stopped");
  }
  throw ConnectionLost("the server does not answer any more");
}

}  // namespace

Report send_stream(Endpoint& end, const Stream& stream,
                   const std::function<void(std::uint32_t)>& post) {
  std::uint32_t acknowledged = 0;
  for (std::uint32_t n = 0; n < stream.count;) {
    if (stopped) throw Failure("stopped");
    if (n - acknowledged < stream.window) {
      end.make_room();
      post(n);
      ++n;
      if (n % 16 != 0 && n - acknowledged < stream.window) continue;
      take_credits(end, milliseconds::zero(), acknowledged);
    } else if (!take_credits(end, stream.reliable ? kSilenceLimit : kLossLimit, acknowledged)) {
      if (stopped) continue;
      if (stream.reliable) throw ConnectionLost("no credit in ten seconds");
      // Messages in flight for so long, or their credit, are lost: the window is free again.
      acknowledged = n;
    }
  }
  const Report report = ask_for_report(end, stream.reliable);
  if (report.received > stream.count || (stream.reliable && report.received != stream.count)) {
    throw Failure(format("the server received %u messages of %u", report.received, stream.count));
  }
  if (report.received == 0) throw Failure("all messages were lost");
  return report;
}

void take_stream(Endpoint& end, const Stream& stream,
                 const std::function<void(const VIP_DESCRIPTOR*, std::uint32_t)>& look,
                 const std::function<void(const Report&)>& at_end) {
  const std::uint32_t step = std::max(stream.window / 4, 1u);
  std::uint32_t expected = 0;
  std::uint32_t credited = 0;
  std::uint32_t received = 0;
  Clock::time_point first, last;
  for (;;) {
    VIP_DESCRIPTOR* const d = next_message(end);
    const std::uint32_t number = d->CS.ImmediateData;
    if (number == kEnd) {
      end.post_receive(d);
      end.make_room();
      const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(last - first);
      // The library reports messages without a receive from another thread.
      if (received < stream.count) std::this_thread::sleep_for(kRefusedDelay);
      const Report report{received, static_cast<std::uint64_t>(elapsed.count()), end.refused()};
      at_end(report);
      end.send_report(report);
      continue;
    }
    if (number != expected && (stream.reliable || number < expected)) {
      throw Failure(format("message %u came instead of %u", number, expected));
    }
    last = Clock::now();
    if (received == 0) first = last;
    look(d, number);
    end.post_receive(d);
    expected = number + 1;
    ++received;
    if (expected - credited >= step || expected == stream.count) {
      credited = expected;
      end.make_room();
      end.send_number(expected);
    }
  }
}

VIP_DESCRIPTOR* next_message(Endpoint& end) {
  for (;;) {
    VIP_DESCRIPTOR* const d = end.receive(kSilenceLimit);
    if (d != nullptr) return d;
    if (stopped) throw Failure("stopped");
  }
}

}  // namespace via
