// Receives of much data that wait for it: their buffers are theirs as long as they wait, and not a
// moment longer.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <string>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

constexpr std::size_t kRecord = 16'000;

// The peer sends records, each when the reader says that it is about to wait.
void serve_records(const Case& t, int s, const Pattern& pattern, int count, std::size_t bytes) {
  for (int i = 0; i < count; ++i) {
    t.hear();
    pause_ms(2);
    send_pattern(s, pattern, static_cast<std::uint64_t>(i) * bytes,
                 static_cast<std::uint64_t>(i + 1) * bytes, bytes);
  }
}

// Receives that have come, and whether all their bytes are the pattern's.
template <class Receive>
int take_records(const Case& t, const Pattern& pattern, int count, std::size_t bytes,
                 Receive&& receive) {
  int good = 0;
  std::string to(bytes + 64, 'g');
  for (int i = 0; i < count; ++i) {
    t.tell("ready");
    if (receive(to.data(), bytes) != static_cast<ssize_t>(bytes)) continue;
    good += pattern.matches(static_cast<std::uint64_t>(i) * bytes, {to.data(), bytes}) &&
            to.find_first_not_of('g', bytes) == std::string::npos;
  }
  return good;
}

CASE(waiting, records, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    t.note("good", take_records(t, pattern, 40, kRecord, [&](char* to, std::size_t bytes) {
             return recv(s, to, bytes, MSG_WAITALL);
           }));
  } else {
    serve_records(t, s, pattern, 40, kRecord);
  }
  t.meet();
}

CASE(waiting, records_longer_than_the_buffer, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    t.note("good", take_records(t, pattern, 20, kRecord, [&](char* to, std::size_t bytes) {
             std::size_t got = 0;
             for (ssize_t here = 1; here > 0 && got < bytes; got += static_cast<std::size_t>(here)) {
               here = recv(s, to + got, std::min<std::size_t>(bytes - got, 5'000), 0);
             }
             return static_cast<ssize_t>(got);
           }));
  } else {
    serve_records(t, s, pattern, 20, kRecord);
  }
  t.meet();
}

CASE(waiting, records_into_pieces, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    t.note("good", take_records(t, pattern, 20, kRecord, [&](char* to, std::size_t bytes) {
             iovec pieces[] = {{to, 100}, {to + 100, 9'000}, {to + 9'100, bytes - 9'100}};
             msghdr message{};
             message.msg_iov = pieces;
             message.msg_iovlen = 3;
             return recvmsg(s, &message, MSG_WAITALL);
           }));
  } else {
    serve_records(t, s, pattern, 20, kRecord);
  }
  t.meet();
}

CASE(waiting, records_of_a_megabyte, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    t.note("good", take_records(t, pattern, 8, 1 << 20, [&](char* to, std::size_t bytes) {
             return recv(s, to, bytes, MSG_WAITALL);
           }));
  } else {
    serve_records(t, s, pattern, 8, 1 << 20);
  }
  t.meet();
}

// A call that has waited in vain lets go of its buffer: later data does not go there.
template <class Wait>
void wait_in_vain(const Case& t, int s, Wait&& wait) {
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    std::string to(kRecord, 'g');
    t.note("first", recv(s, to.data(), to.size(), MSG_WAITALL));
    t.note("intact", pattern.matches(0, to));
    wait(to.data(), to.size());
    to.assign(kRecord, 'g');
    t.meet();
    wait_for(s, POLLIN);
    pause_ms(kAWhile);
    t.note("left alone", to.find_first_not_of('g') == std::string::npos);
    t.note("then", recv(s, to.data(), to.size(), MSG_WAITALL));
    t.note("intact", pattern.matches(kRecord, to));
  } else {
    send_pattern(s, pattern, 0, kRecord, kRecord);
    t.meet();
    send_pattern(s, pattern, kRecord, 2 * kRecord, kRecord);
  }
  t.meet();
}

CASE(waiting, until_the_time_is_up, kEach) {
  Fd s = t.pair();
  wait_in_vain(t, s, [&](char* to, std::size_t bytes) {
    set_time_limit(s, SO_RCVTIMEO, 100);
    t.note("recv", recv(s, to, bytes, 0));
    set_time_limit(s, SO_RCVTIMEO, 0);
  });
}

CASE(waiting, until_a_handler_has_run, kEach | kAlone) {
  Fd s = t.pair();
  wait_in_vain(t, s, [&](char* to, std::size_t bytes) {
    const Interrupts interrupts(false);
    t.note("recv", recv(s, to, bytes, 0));
  });
}

sigjmp_buf out_of_receive;

CASE(waiting, until_a_handler_leaves, kEach | kAlone) {
  Fd s = t.pair();
  wait_in_vain(t, s, [&](char* to, std::size_t bytes) {
    signal(SIGALRM, [](int) { siglongjmp(out_of_receive, 1); });
    const itimerval timer{{0, 0}, {0, kInCall * 1000}};
    must(setitimer(ITIMER_REAL, &timer, nullptr), "setitimer");
    if (sigsetjmp(out_of_receive, 1) == 0) {
      t.note("recv", recv(s, to, bytes, 0));
    } else {
      t.say("left");
    }
    signal(SIGALRM, SIG_DFL);
  });
}

// Bytes that come for a buffer which can't take them are there for the next one.
CASE(waiting, with_a_buffer_that_cannot_be_written, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    std::string to(kRecord, 'g');
    t.note("first", recv(s, to.data(), to.size(), MSG_WAITALL));
    void* const fixed = mmap(nullptr, kRecord, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t.meet();
    t.note("recv", recv(s, fixed, kRecord, 0));
    munmap(fixed, kRecord);
    t.note("then", recv(s, to.data(), to.size(), MSG_WAITALL));
    t.note("intact", pattern.matches(kRecord, to));
  } else {
    send_pattern(s, pattern, 0, kRecord, kRecord);
    t.meet();
    pause_ms(kInCall);
    send_pattern(s, pattern, kRecord, 2 * kRecord, kRecord);
  }
  t.meet();
}

CASE(waiting, while_the_end_comes, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    std::string to(2 * kRecord, 'g');
    t.note("first", recv(s, to.data(), kRecord, MSG_WAITALL));
    t.meet();
    t.note("all of it", recv(s, to.data(), to.size(), MSG_WAITALL));
    t.note("intact", pattern.matches(kRecord, {to.data(), kRecord}));
    t.note("end", recv(s, to.data(), to.size(), 0));
  } else {
    send_pattern(s, pattern, 0, kRecord, kRecord);
    t.meet();
    pause_ms(kInCall);
    send_pattern(s, pattern, kRecord, 2 * kRecord, kRecord);
    shutdown(s, SHUT_WR);
  }
  t.meet();
}

// Two threads wait for the same socket: each byte goes to one of them, once.
CASE(waiting, by_two_threads, kEach | kAlone) {
  Fd s = t.pair();
  constexpr int kLetters = 26;
  if (t.client()) {
    std::size_t seen[2][kLetters] = {};
    const auto read = [&](int which) {
      std::string to(kRecord, 'g');
      ssize_t got;
      while ((got = recv(s, to.data(), to.size(), 0)) > 0) {
        for (ssize_t i = 0; i < got; ++i) ++seen[which][(to[static_cast<std::size_t>(i)] - 'a') % kLetters];
      }
    };
    std::thread other(read, 1);
    read(0);
    other.join();
    bool good = true;
    for (int i = 0; i < kLetters; ++i) good &= seen[0][i] + seen[1][i] == 2 * kRecord;
    t.note("each byte once", good);
  } else {
    for (int i = 0; i < 2 * kLetters; ++i) {
      pause_ms(2);
      send_all(s, std::string(kRecord, static_cast<char>('a' + i % kLetters)));
    }
    shutdown(s, SHUT_WR);
  }
  t.meet();
}

}  // namespace
}  // namespace semantics
