#include "calls.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <thread>

namespace semantics {

int must(long result, const char* what) {
  if (result == -1) throw CaseFails(std::string(what) + ": " + errno_name(errno));
  return static_cast<int>(result);
}

void set_option(int socket, int level, int option, int value) {
  must(setsockopt(socket, level, option, &value, sizeof value), "setsockopt");
}

int get_option(int socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  must(getsockopt(socket, level, option, &value, &size), "getsockopt");
  return value;
}

void set_nonblocking(int fd, bool on) {
  const int flags = must(fcntl(fd, F_GETFL), "F_GETFL");
  must(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), "F_SETFL");
}

void set_time_limit(int socket, int option, int milliseconds) {
  const timeval limit{milliseconds / 1000, milliseconds % 1000 * 1000};
  must(setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit), "a time limit");
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    bytes.remove_prefix(static_cast<std::size_t>(must(n, "send")));
  }
}

std::string read_exactly(int fd, std::size_t n) {
  std::string bytes(n, '\0');
  std::size_t at = 0;
  while (at < n) {
    const ssize_t got = read(fd, &bytes[at], n - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += static_cast<std::size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

std::string read_to_end(int fd, std::string* how) {
  std::string bytes;
  char piece[16384];
  for (;;) {
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (how != nullptr) *how = n == 0 ? "end" : errno_name(errno);
      return bytes;
    }
    bytes.append(piece, static_cast<std::size_t>(n));
  }
}

std::string death(const std::string& how) { return how == "ECONNRESET" ? "end" : how; }

Pattern::Pattern(std::uint64_t seed) : table_(2 * kPeriod - 1, '\0') {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < kPeriod; ++i) table_[i] = static_cast<char>(random());
  for (std::size_t i = kPeriod; i < table_.size(); ++i) table_[i] = table_[i - kPeriod];
}

std::string Pattern::bytes(std::uint64_t at, std::size_t n) const {
  std::string made;
  made.reserve(n);
  while (made.size() < n) {
    const std::size_t from = (at + made.size()) % kPeriod;
    made.append(table_, from, std::min(n - made.size(), kPeriod));
  }
  return made;
}

bool Pattern::matches(std::uint64_t at, std::string_view bytes) const {
  const std::string_view table = table_;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kPeriod);
    if (bytes.substr(0, n) != table.substr(at % kPeriod, n)) return false;
    bytes.remove_prefix(n);
    at += n;
  }
  return true;
}

void send_pattern(int socket, const Pattern& pattern, std::uint64_t from, std::uint64_t to,
                  std::size_t piece) {
  while (from < to) {
    const std::size_t n = std::min<std::uint64_t>(piece, to - from);
    send_all(socket, pattern.bytes(from, n));
    from += n;
  }
}

std::uint64_t receive_pattern(int socket, const Pattern& pattern, std::uint64_t from,
                              std::uint64_t to, std::size_t piece) {
  std::string buffer(piece, '\0');
  while (from < to) {
    const ssize_t n = recv(socket, buffer.data(), std::min<std::uint64_t>(piece, to - from), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const std::string_view got(buffer.data(), static_cast<std::size_t>(n));
    if (!pattern.matches(from, got)) break;
    from += got.size();
  }
  return from;
}

std::uint64_t exchange_pattern(int socket, const Pattern& out, const Pattern& in,
                               std::uint64_t size, std::size_t piece) {
  set_nonblocking(socket);
  std::string buffer(piece, '\0');
  std::uint64_t sent = 0, received = 0;
  while (sent < size || received < size) {
    pollfd at{socket, 0, 0};
    if (sent < size) at.events |= POLLOUT;
    if (received < size) at.events |= POLLIN;
    if (poll(&at, 1, 2 * kSoon) <= 0) break;
    if ((at.revents & POLLIN) != 0) {
      const ssize_t n =
          recv(socket, buffer.data(), std::min<std::uint64_t>(piece, size - received), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) break;
      if (n > 0) {
        if (!in.matches(received, {buffer.data(), static_cast<std::size_t>(n)})) break;
        received += static_cast<std::uint64_t>(n);
      }
    }
    if ((at.revents & POLLOUT) != 0 && sent < size) {
      const std::string bytes = out.bytes(sent, std::min<std::uint64_t>(piece, size - sent));
      const ssize_t n = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) break;
      if (n > 0) sent += static_cast<std::uint64_t>(n);
    }
    if ((at.revents & (POLLERR | POLLHUP)) != 0 && (at.revents & POLLIN) == 0) break;
  }
  set_nonblocking(socket, false);
  return sent < size ? 0 : received;
}

std::uint64_t fill_up(int socket) {
  const std::string piece(16384, 'f');
  std::uint64_t sent = 0;
  // It is not settled at the first refusal: bytes still move to the peer, and its acknowledgements
  // may be delayed by 40 ms.
  for (int refusals = 0; refusals < 8;) {
    const ssize_t n = send(socket, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::uint64_t>(n);
      refusals = 0;
    } else {
      if (errno != EAGAIN) must(n, "filling up");
      ++refusals;
      pause_ms(10);
    }
  }
  return sent;
}

bool drain(int socket, std::uint64_t n) {
  std::string buffer(65536, '\0');
  while (n > 0) {
    const ssize_t got = recv(socket, buffer.data(), std::min<std::uint64_t>(n, buffer.size()), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    n -= static_cast<std::uint64_t>(got);
  }
  return true;
}

short wait_for(int fd, short events, short wanted) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kSoon);
  for (;;) {
    const short seen = ready_now(fd, events);
    if ((seen & wanted) == wanted || std::chrono::steady_clock::now() >= until) return seen;
    pause_ms(2);
  }
}

short ready_now(int fd, short events) {
  pollfd at{fd, events, 0};
  must(poll(&at, 1, 0), "poll");
  return at.revents;
}

int queued(int socket, unsigned long which) {
  int n = -1;
  must(ioctl(socket, which, &n), "ioctl");
  return n;
}

bool wait_for_bytes(int socket, int n) {
  for (int i = 0; i < kSoon; ++i) {
    if (queued(socket, FIONREAD) >= n) return true;
    pause_ms(1);
  }
  return false;
}

void pause_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace semantics
