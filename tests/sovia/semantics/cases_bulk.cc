// Much data: more than any window, in odd pieces, both ways, and while a connection changes its
// way. way.
#include <algorithm>
#include <random>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

CASE(bulk, sixty_four_megabytes_in_odd_reads, kCold | kWarm) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 64 << 20;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 256 << 10);
    t.data("answer", read_exactly(s, 2));
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 99'991)));
    send_all(s, "ok");
  }
}

CASE(bulk, from_the_accepting_side, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 16 << 20;
  if (t.server()) {
    send_pattern(s, pattern, 0, kBytes, 32 << 10);
    t.data("answer", read_exactly(s, 2));
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 65'537)));
    send_all(s, "ok");
  }
}

CASE(bulk, random_sizes, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 4'000'000;
  // Each end draws its own sizes: small ones often, large ones now and then.
  std::mt19937 random(static_cast<unsigned>(t.settings().seed) + (t.client() ? 0 : 1));
  const auto draw = [&] { return 1 + random() % (1u << (1 + random() % 17)); };
  std::uint64_t at = 0;
  while (at < kBytes) {
    const std::uint64_t to = std::min<std::uint64_t>(kBytes, at + draw());
    if (t.client()) {
      send_pattern(s, pattern, at, to, to - at);
    } else if (receive_pattern(s, pattern, at, to, to - at) != to) {
      break;
    }
    at = to;
  }
  t.note("right up to", static_cast<long>(at));
  t.meet();
}

CASE(bulk, both_ways_by_poll, kEach) {
  Fd s = t.pair();
  const Pattern out(t.client() ? 1 : 2), in(t.client() ? 2 : 1);
  // Both send more than any window before either has received it all.
  constexpr std::uint64_t kBytes = 12'000'000;
  t.note("right up to", static_cast<long>(exchange_pattern(s, out, in, kBytes, 60'000)));
  t.meet();
}

CASE(bulk, both_ways_in_small_buffers, kEach) {
  Fd s = t.pair({.send_buffer = 10'000, .receive_buffer = 10'000});
  const Pattern out(t.client() ? 1 : 2), in(t.client() ? 2 : 1);
  constexpr std::uint64_t kBytes = 1'000'000;
  t.note("right up to", static_cast<long>(exchange_pattern(s, out, in, kBytes, 7'000)));
  t.meet();
}

CASE(bulk, both_fill_up_before_either_reads, kEach) {
  Fd s = t.pair({.send_buffer = 30'000, .receive_buffer = 30'000});
  const std::uint64_t mine = fill_up(s);
  t.tell(std::to_string(mine));
  const std::uint64_t theirs = std::stoull(t.hear());
  t.say(mine > 4000 && theirs > 4000 ? "both sent" : "one could not send");
  t.say(drain(s, theirs) ? "all came" : "not all came");
  t.meet();
}

CASE(bulk, a_slow_reader, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 3'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 100'000);
    t.meet();
  } else {
    std::uint64_t at = 0;
    for (int i = 0; i < 20 && at < kBytes; ++i) {
      pause_ms(2);
      at = receive_pattern(s, pattern, at, std::min(kBytes, at + 150'000), 5'000);
    }
    t.note("right up to", static_cast<long>(at));
    t.meet();
  }
}

CASE(bulk, a_slow_writer, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 100'000;
  if (t.client()) {
    for (std::uint64_t at = 0; at < kBytes; at += 5000) {
      pause_ms(2);
      send_pattern(s, pattern, at, at + 5000, 777);
    }
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 60'000)));
  }
}

CASE(bulk, turns, kEach) {
  // Large blocks go to and fro.
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBlock = 500'000;
  for (std::uint64_t i = 0; i < 6; ++i) {
    if (t.client() == (i % 2 == 0)) {
      send_pattern(s, pattern, i, i + kBlock, kBlock);
    } else {
      const std::uint64_t right = receive_pattern(s, pattern, i, i + kBlock, 123'457);
      t.note("right up to", static_cast<long>(right - i));
    }
  }
  t.meet();
}

CASE(bulk, several_connections_in_one_thread, kEach) {
  const std::vector<Fd> all = t.pairs(5);
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kPart = 50'000;
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t from = round * kPart + i, to = from + kPart;
      if (t.client()) {
        send_pattern(all[i], pattern, from, to, 9'000 + i);
      } else if (receive_pattern(all[i], pattern, from, to, 11'000) != to) {
        t.say("wrong");
      }
    }
  }
  t.say("done");
  t.meet();
}

// ---------------------------------------------------------------- while the way changes

// From the first byte of a cold connection on, for long enough that an acceleration sets in amidst
// it.
constexpr auto kLongEnough = std::chrono::milliseconds(150);

CASE(change, stream_one_way, kAlone) {
  Fd s = t.cold_pair();
  const Pattern pattern(t.settings().seed);
  // The length depends on time, so it goes along in the control connection.
  if (t.client()) {
    const auto end = std::chrono::steady_clock::now() + kLongEnough;
    std::uint64_t at = 0;
    for (; std::chrono::steady_clock::now() < end; at += 3001) {
      send_pattern(s, pattern, at, at + 3001, 3001);
    }
    shutdown(s, SHUT_WR);
    t.tell(std::to_string(at));
  } else {
    std::uint64_t at = 0;
    for (std::uint64_t next; (next = receive_pattern(s, pattern, at, at + 1, 1)) == at + 1;) {
      at = next;
      at = receive_pattern(s, pattern, at, at + 9'999, 10'007);
    }
    t.say(t.hear() == std::to_string(at) ? "all came" : "not all came");
  }
}

CASE(change, stream_both_ways, kAlone) {
  Fd s = t.cold_pair();
  const Pattern out(t.client() ? 1 : 2), in(t.client() ? 2 : 1);
  constexpr std::uint64_t kBytes = 30'000'000;
  t.note("right up to", static_cast<long>(exchange_pattern(s, out, in, kBytes, 9'001)));
  t.meet();
}

CASE(change, requests_and_answers, kAlone) {
  Fd s = t.cold_pair();
  bool good = true;
  if (t.client()) {
    const auto end = std::chrono::steady_clock::now() + kLongEnough;
    for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
      const std::string text = std::to_string(1'000'000'000 + i);
      send_all(s, text);
      good = good && read_exactly(s, 10) == text;
    }
    shutdown(s, SHUT_WR);
  } else {
    std::string text;
    while ((text = read_exactly(s, 10)).size() == 10) send_all(s, text);
    good = text.empty();
  }
  t.say(good ? "good" : "wrong");
  t.meet();
}

CASE(change, peeking_all_the_time, kAlone) {
  Fd s = t.cold_pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 2'000'000;
  if (t.client()) {
    for (std::uint64_t at = 0; at < kBytes; at += 20'000) {
      send_pattern(s, pattern, at, at + 20'000, 777);
      if (at % 100'000 == 0) pause_ms(5);
    }
    t.meet();
  } else {
    std::uint64_t at = 0;
    std::string to(5'000, '\0');
    while (at < kBytes) {
      const ssize_t n = recv(s, to.data(), to.size(), MSG_PEEK);
      if (n <= 0 || !pattern.matches(at, {to.data(), static_cast<std::size_t>(n)})) break;
      const std::uint64_t next = at + 1 + static_cast<std::uint64_t>(n) / 2;
      at =
          receive_pattern(s, pattern, at, std::min(next, at + static_cast<std::uint64_t>(n)), 4096);
    }
    t.note("right up to", static_cast<long>(at));
    t.meet();
  }
}

CASE(change, waiting_in_poll_all_the_time, kAlone) {
  Fd s = t.cold_pair();
  long rounds = 0;
  constexpr long kRounds = 3000;
  for (; rounds < kRounds; ++rounds) {
    if (t.client()) send_all(s, "ping");
    pollfd at{s, POLLIN, 0};
    if (poll(&at, 1, kSoon) != 1 || read_exactly(s, 4).size() != 4) break;
    if (t.server()) send_all(s, "pong");
  }
  t.note("rounds", rounds);
}

CASE(change, ends_soon_after_the_start, kAlone) {
  // Connections that end at every moment that an acceleration has.
  for (int messages = 0; messages < 40; ++messages) {
    Fd s = t.cold_pair();
    if (t.client()) {
      for (int i = 0; i < messages; ++i) {
        send_all(s, "message");
        if (i % 2 == 0) pause_ms(1);
      }
      s.close();
    } else {
      const std::string all = read_to_end(s);
      t.note("bytes", static_cast<long>(all.size()));
    }
  }
}

CASE(change, forks_soon_after_the_start, kAlone) {
  for (int messages = 0; messages < 24; messages += 2) {
    Fd s = t.cold_pair();
    for (int i = 0; i < messages; ++i) {
      send_all(s, "m");
      read_exactly(s, 1);
    }
    const pid_t child = fork_child([&] {
      send_all(s, "child");
      return 0;
    });
    t.say(wait_child(child));
    send_all(s, "parent");
    t.data("came", read_exactly(s, 11));
  }
}

CASE(change, idle_in_between, kAlone) {
  Fd s = t.cold_pair();
  for (int i = 0; i < 4; ++i) {
    for (int n = 0; n < 10; ++n) {
      send_all(s, "to and fro");
      read_exactly(s, 10);
    }
    pause_ms(60);
    t.say(poll_bits(ready_now(s, POLLIN | POLLOUT)));
    t.meet();
  }
}

}  // namespace
}  // namespace semantics
