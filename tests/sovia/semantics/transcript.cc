#include "transcript.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "raw.h"

namespace semantics {
namespace {

struct Bit {
  std::uint32_t value;
  const char* name;
};

template <std::size_t N>
std::string bits(std::uint32_t value, const Bit (&table)[N]) {
  std::string text;
  for (const Bit& bit : table) {
    if ((value & bit.value) == 0) continue;
    if (!text.empty()) text += '|';
    text += bit.name;
    value &= ~bit.value;
  }
  if (value != 0) text += "|and others";
  return text.empty() ? "none" : text;
}

}  // namespace

Transcript::Transcript(const std::string& path) {
  const long fd = raw::call(SYS_openat, AT_FDCWD, path.c_str(),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) fd_ = raw::out_of_the_way(static_cast<int>(fd));
}

Transcript::~Transcript() {
  if (fd_ >= 0) raw::close(fd_);
}

void Transcript::line(std::string_view text) const {
  std::string whole(text);
  whole += '\n';
  raw::write_all(fd_, whole.data(), whole.size());
}

std::string errno_name(int error) {
  const char* const name = ::strerrorname_np(error);
  return name != nullptr ? name : "errno " + std::to_string(error);
}

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

std::string poll_bits(short value) {
  // POLLRDNORM and POLLWRNORM come with POLLIN and POLLOUT, and no case asks for them.
  static constexpr Bit kTable[] = {{POLLIN, "IN"},    {POLLPRI, "PRI"}, {POLLOUT, "OUT"},
                                   {POLLERR, "ERR"},  {POLLHUP, "HUP"}, {POLLRDHUP, "RDHUP"},
                                   {POLLNVAL, "NVAL"}};
  return bits(static_cast<std::uint16_t>(value), kTable);
}

std::string epoll_bits(std::uint32_t value) {
  static constexpr Bit kTable[] = {{EPOLLIN, "IN"},   {EPOLLPRI, "PRI"}, {EPOLLOUT, "OUT"},
                                   {EPOLLERR, "ERR"}, {EPOLLHUP, "HUP"}, {EPOLLRDHUP, "RDHUP"}};
  return bits(value, kTable);
}

std::string exit_status(int status) {
  if (WIFEXITED(status)) return "exit " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return "killed by " + signal_name(WTERMSIG(status));
  return "status " + std::to_string(status);
}

std::string shown(std::string_view bytes) {
  const bool text = bytes.size() <= 60 && std::all_of(bytes.begin(), bytes.end(), [](char c) {
                      return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\0';
                    });
  if (!text) {
    std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    char line[64];
    std::snprintf(line, sizeof line, "%zu bytes, checksum %016llx", bytes.size(),
                  static_cast<unsigned long long>(sum));
    return line;
  }
  std::string quoted = "\"";
  for (const char c : bytes) {
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (c == '\0') {
      quoted += "\\0";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace semantics
