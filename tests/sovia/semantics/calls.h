// Helpers of the cases, beside the sockets API itself: whole streams, waiting for readiness, children, interruptions.
#ifndef SEMANTICS_CALLS_H
#define SEMANTICS_CALLS_H

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "case.h"

namespace semantics {

// The result; throws CaseFails if it is -1.
int must(long result, const char* what);

// ---------------------------------------------------------------- options

void set_option(int socket, int level, int option, int value);
int get_option(int socket, int level, int option);
void set_nonblocking(int fd, bool on = true);
void set_time_limit(int socket, int option, int milliseconds);  // SO_RCVTIMEO, SO_SNDTIMEO

// ---------------------------------------------------------------- streams

void send_all(int socket, std::string_view bytes);
// `n` bytes, or fewer if the stream ends or fails before.
std::string read_exactly(int fd, std::size_t n);
// Up to the end of the stream; `how` becomes "end" or the name of the error that ended it.
std::string read_to_end(int fd, std::string* how = nullptr);
// "end" for both kinds of end that a peer's sudden death may have.
std::string death(const std::string& how);

// A long stream of bytes that each position determines.
class Pattern {
 public:
  explicit Pattern(std::uint64_t seed);
  // `n` bytes from position `at` on.
  std::string bytes(std::uint64_t at, std::size_t n) const;
  bool matches(std::uint64_t at, std::string_view bytes) const;

 private:
  static constexpr std::size_t kPeriod = 65521;  // a prime: no size of a buffer divides it
  std::string table_;                            // two periods, less one byte
};

// Sends bytes [from, to) of a pattern in pieces of up to `piece` bytes; receives and checks them in
// reads of up to `piece` bytes. The latter gives the position of the first byte that was wrong or
// missing, `to` if none.
void send_pattern(int socket, const Pattern&, std::uint64_t from, std::uint64_t to,
                  std::size_t piece);
std::uint64_t receive_pattern(int socket, const Pattern&, std::uint64_t from, std::uint64_t to,
                              std::size_t piece);
// Both directions at once by poll() and non-blocking calls; the result as receive_pattern's.
std::uint64_t exchange_pattern(int socket, const Pattern& out, const Pattern& in,
                               std::uint64_t size, std::size_t piece);

// Sends without blocking until the peer, which does not read, lets no more in; how much it was.
std::uint64_t fill_up(int socket);
// Reads and drops exactly `n` bytes; false at an early end.
bool drain(int socket, std::uint64_t n);

// ---------------------------------------------------------------- waiting

constexpr int kSoon = 3000;  // ms: expected data comes before that
constexpr int kAWhile = 60;  // ms: no data comes after that
constexpr int kInCall = 80;  // ms: by then the other thread or end is inside its call

// The readiness bits of a descriptor once all of `wanted` are there, or after kSoon.
short wait_for(int fd, short events, short wanted);
inline short wait_for(int fd, short events) { return wait_for(fd, events, events); }
short ready_now(int fd, short events);
// What FIONREAD or TIOCOUTQ (SIOCOUTQ) says.
int queued(int socket, unsigned long which);
// Until that many bytes can be read (FIONREAD).
bool wait_for_bytes(int socket, int n);
void pause_ms(int milliseconds);
// Time since a moment, rounded down to "at least so much" for transcripts.
class Clock {
 public:
  Clock() : begin_(std::chrono::steady_clock::now()) {}
  bool at_least(int milliseconds) const {
    // A tick of the kernel's early is on time.
    return std::chrono::steady_clock::now() - begin_ >= std::chrono::milliseconds(milliseconds - 5);
  }

 private:
  std::chrono::steady_clock::time_point begin_;
};

// ---------------------------------------------------------------- processes and signals

// A child made by fork() that runs `body` and calls _exit() with its result; its pid.
pid_t fork_child(const std::function<int()>& body);
// "exit 0", "killed by SIGKILL" ...
std::string wait_child(pid_t child);
// Two processes of one end taking turns: one calls go(), the other wait().
class Turn {
 public:
  Turn();
  void go();
  bool wait();  // false if the other one has ended
 private:
  Fd read_, write_;
};

// This program, to be run as a helper (helper.h), and its name for messages.
std::string own_program();

// SIGALRM at intervals for as long as this exists, with a handler that counts.
class Interrupts {
 public:
  explicit Interrupts(bool restart, int interval_ms = 40);
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();
  static int seen();
};

// A handler for a signal that counts; the former one comes back at the end.
class Counted {
 public:
  explicit Counted(int number);
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted();
  static int seen();
  static bool wait(int n = 1);  // until it was seen n times

 private:
  int number_;
};

}  // namespace semantics

#endif
