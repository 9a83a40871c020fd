// Threads on one connection, and of the library.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

CASE(threads, one_reads_another_writes, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern out(t.client() ? 1 : 2), in(t.client() ? 2 : 1);
  constexpr std::uint64_t kBytes = 3'000'000;
  std::thread writer([&] { send_pattern(s, out, 0, kBytes, 44'000); });
  const std::uint64_t right = receive_pattern(s, in, 0, kBytes, 13'001);
  writer.join();
  t.note("right up to", static_cast<long>(right));
  t.meet();
}

// Of an environment that is just being changed.
class NoEnvironment {
 public:
  NoEnvironment() : own_(environ) { environ = reinterpret_cast<char**>(1); }
  ~NoEnvironment() { environ = own_; }
  NoEnvironment(const NoEnvironment&) = delete;

 private:
  char** const own_;
};

// A program may change it whenever no other thread of its own looks there, and other threads don't.
CASE(threads, none_looks_at_the_environment, kEach | kAlone) {
  const NoEnvironment broken;
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "question");
    t.data("answer", read_exactly(s, 6));
  } else {
    t.data("question", read_exactly(s, 8));
    send_all(s, "answer");
  }
  pause_ms(200);  // for what a connection still has begun
  t.meet();
}

CASE(threads, a_reader_waits_while_another_thread_writes, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    std::string came;
    std::thread reader([&] { came = read_exactly(s, 6); });
    pause_ms(20);
    for (int i = 0; i < 100; ++i) send_all(s, "message.");
    reader.join();
    t.data("came", came);
  } else {
    t.data("came", read_exactly(s, 800));
    send_all(s, "answer");
  }
}

// The reader gets all data, however often another thread finds nothing meanwhile.
CASE(threads, one_peeks_while_another_waits, kEach | kAlone) {
  Fd s = t.pair();
  constexpr int kRounds = 400;
  constexpr std::size_t kBytes = 20'000;
  std::size_t came = 0;
  if (t.client()) {
    std::atomic<bool> over{false};
    std::thread other([&] {
      char seen;
      while (!over) recv(s, &seen, 1, MSG_PEEK | MSG_DONTWAIT);
    });
    for (int i = 0; i < kRounds; ++i) {
      send_all(s, "more");
      came += read_exactly(s, kBytes).size();
    }
    over = true;
    other.join();
  } else {
    const std::string much(kBytes, 'm');
    for (int i = 0; i < kRounds; ++i) {
      came += read_exactly(s, 4).size();
      send_all(s, much);
    }
  }
  t.note("bytes", static_cast<long>(came));
}

// Each writer sends bytes of its own kind; they may mix in any order.
void count_kinds(Case& t, int s, std::size_t writers, std::size_t each) {
  const std::string all = read_exactly(s, writers * each);
  t.note("bytes", static_cast<long>(all.size()));
  std::vector<std::size_t> counts(256);
  for (const char c : all) ++counts[static_cast<unsigned char>(c)];
  for (std::size_t i = 0; i < writers; ++i) {
    t.note("of one writer", static_cast<long>(counts['a' + i]));
  }
}

CASE(threads, several_writers, kEach | kAlone) {
  Fd s = t.pair();
  constexpr std::size_t kWriters = 4, kRecord = 100, kRecords = 300;
  if (t.client()) {
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < kWriters; ++i) {
      writers.emplace_back([&s, i] {
        const std::string record(kRecord, static_cast<char>('a' + i));
        for (std::size_t n = 0; n < kRecords; ++n) send_all(s, record);
      });
    }
    for (std::thread& each : writers) each.join();
    t.meet();
  } else {
    count_kinds(t, s, kWriters, kRecord * kRecords);
    t.meet();
  }
}

CASE(threads, writers_of_large_records, kEach | kAlone) {
  Fd s = t.pair();
  constexpr std::size_t kWriters = 3, kRecord = 200'000, kRecords = 4;
  if (t.client()) {
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < kWriters; ++i) {
      writers.emplace_back([&s, i] {
        const std::string record(kRecord, static_cast<char>('a' + i));
        for (std::size_t n = 0; n < kRecords; ++n) send_all(s, record);
      });
    }
    for (std::thread& each : writers) each.join();
    t.meet();
  } else {
    count_kinds(t, s, kWriters, kRecord * kRecords);
    t.meet();
  }
}

CASE(threads, several_readers, kEach | kAlone) {
  Fd s = t.pair();
  constexpr std::size_t kBytes = 400'000;
  if (t.client()) {
    for (std::size_t i = 0; i < kBytes / 100; ++i) send_all(s, std::string(100, 'a'));
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    std::atomic<std::size_t> total{0}, strange{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&] {
        char to[777];
        ssize_t n;
        while ((n = recv(s, to, sizeof to, 0)) > 0) {
          total += static_cast<std::size_t>(n);
          for (ssize_t k = 0; k < n; ++k) strange += to[k] != 'a';
        }
      });
    }
    for (std::thread& each : readers) each.join();
    t.note("bytes", static_cast<long>(total.load()));
    t.note("strange ones", static_cast<long>(strange.load()));
    t.meet();
  }
}

CASE(threads, the_end_wakes_all_readers, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    std::atomic<int> ends{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        char to;
        if (recv(s, &to, 1, 0) == 0) ++ends;
      });
    }
    for (std::thread& each : readers) each.join();
    t.note("ends", ends.load());
    t.meet();
  }
}

CASE(threads, each_has_a_connection, kEach | kAlone) {
  const std::vector<Fd> all = t.pairs(6);
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 400'000;
  std::vector<std::uint64_t> right(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      if (t.client()) {
        send_pattern(all[i], pattern, i, i + kBytes, 9000 + i);
        right[i] = receive_pattern(all[i], pattern, i, i + kBytes, 8000);
      } else {
        right[i] = receive_pattern(all[i], pattern, i, i + kBytes, 8000);
        send_pattern(all[i], pattern, i, i + kBytes, 9000 + i);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  for (const std::uint64_t each : right) t.note("right up to", static_cast<long>(each));
}

CASE(threads, echo_by_a_thread_for_each, kAlone) {
  constexpr int kClients = 8;
  if (t.server()) {
    const Fd listener = t.listen();
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([fd = must(accept(listener, nullptr, nullptr), "accept")] {
        const Fd s(fd);
        std::string piece;
        while (!(piece = read_exactly(s, 10)).empty()) send_all(s, piece);
      });
    }
    for (std::thread& each : threads) each.join();
    t.say("all have ended");
  } else {
    const sockaddr_storage to = t.hear_address();
    std::vector<std::thread> threads;
    std::vector<int> good(kClients);
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
        must(connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
        for (int round = 0; round < 100; ++round) {
          const std::string text = std::to_string(1'000'000'000 + i * 1000 + round);
          send_all(s, text);
          good[static_cast<std::size_t>(i)] += read_exactly(s, 10) == text;
        }
      });
    }
    for (std::thread& each : threads) each.join();
    for (const int each : good) t.note("good echoes", each);
  }
}

CASE(threads, accept_in_several, kAlone) {
  constexpr int kThreads = 4;
  if (t.server()) {
    const Fd listener = t.listen();
    std::atomic<int> accepted{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const Fd s(accept(listener, nullptr, nullptr));
        if (s >= 0) ++accepted;
        send_all(s, "welcome");
      });
    }
    for (std::thread& each : threads) each.join();
    t.note("accepted", accepted.load());
  } else {
    const sockaddr_storage to = t.hear_address();
    for (int i = 0; i < kThreads; ++i) {
      const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
      must(connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
      t.data("came", read_exactly(s, 7));
    }
  }
}

CASE(threads, one_polls_another_reads, kEach | kAlone) {
  Fd s = t.pair();
  constexpr int kRounds = 100;
  if (t.client()) {
    for (int i = 0; i < kRounds; ++i) {
      send_all(s, "round");
      if (read_exactly(s, 1).empty()) break;
    }
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    std::atomic<bool> done{false};
    std::thread poller([&] {
      while (!done) {
        pollfd at{s, POLLIN, 0};
        poll(&at, 1, 20);
      }
    });
    int rounds = 0;
    while (read_exactly(s, 5).size() == 5) {
      send_all(s, "k");
      ++rounds;
    }
    done = true;
    poller.join();
    t.note("rounds", rounds);
    t.meet();
  }
}

CASE(threads, urgent_byte_from_another, kEach | kAlone) {
  Fd s = t.pair();
  constexpr std::uint64_t kBytes = 500'000;
  if (t.client()) {
    std::thread urgent([&] {
      pause_ms(2);
      must(send(s, "!", 1, MSG_OOB), "send");
    });
    for (std::uint64_t i = 0; i < kBytes / 1000; ++i) send_all(s, std::string(1000, 'a'));
    urgent.join();
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    const std::string all = read_to_end(s);
    t.note("ordinary bytes", std::count(all.begin(), all.end(), 'a'));
    t.note("others", static_cast<long>(all.size()) - std::count(all.begin(), all.end(), 'a'));
    t.meet();
  }
}

}  // namespace
}  // namespace semantics
