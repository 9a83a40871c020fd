#include "examples/viabench/lines.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "examples/common/nic.h"

namespace viabench {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool write_line(int fd, const std::string& line) {
  std::string text = line;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

bool LineReader::take(std::string& line) {
  const std::size_t end = buffer_.find('\n');
  if (end == std::string::npos) return false;
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return true;
}

bool LineReader::fill() {
  constexpr std::size_t kMostBytes = 1 << 20;  // of a line: viabench sends no longer ones
  char piece[4096];
  const ssize_t n = read(fd_, piece, sizeof piece);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0 || buffer_.size() > kMostBytes) return false;
  buffer_.append(piece, static_cast<std::size_t>(n));
  return true;
}

LineReader::Result LineReader::next(std::string& line, Time limit) {
  while (!take(line)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        limit - std::chrono::steady_clock::now());
    if (left.count() <= 0 || via::stopped) return Result::kTime;
    pollfd p{fd_, POLLIN, 0};
    const int n = poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 200)));
    if (n > 0 && !fill()) return Result::kEnd;
  }
  return Result::kLine;
}

void Reporter::value(const std::string& name, double value) const {
  char text[200];
  std::snprintf(text, sizeof text, "value %s %.17g", name.c_str(), value);
  write_line(fd_, text);
}

void Reporter::failed(const std::string& text) const { write_line(fd_, "failed " + text); }

bool begins(const std::string& line, const std::string& word, std::string& rest) {
  if (line.compare(0, word.size(), word) != 0) return false;
  if (line.size() > word.size() && line[word.size()] != ' ') return false;
  rest = line.size() > word.size() ? line.substr(word.size() + 1) : "";
  return true;
}

}  // namespace viabench
