// Lines of text to and from another process, here or on the other host.
//
//   to a server     run CASE                from it    ready WHERE     the far end waits there
//                   stop                               value NAME N    a figure
//                                                      failed TEXT
//                                                      end             the far end is gone
#ifndef VIADUCT_EXAMPLES_VIABENCH_LINES_H
#define VIADUCT_EXAMPLES_VIABENCH_LINES_H

#include <chrono>
#include <string>

namespace viabench {

using Time = std::chrono::steady_clock::time_point;

// Owns a descriptor.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_;
};

// Writes a line whole. False when the reader has gone.
bool write_line(int fd, const std::string& line);

class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  enum class Result { kLine, kTime, kEnd };

  // Waits for a line until `limit`.
  Result next(std::string& line, Time limit);

  // Takes a line that has been read already, without waiting.
  bool take(std::string& line);

  // Reads what is there, when poll() says so. False at the end.
  bool fill();

  int fd() const { return fd_; }

 private:
  int fd_;
  std::string buffer_;
};

// The lines that the process of one sample writes.
class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}
  void ready(const std::string& where) const { write_line(fd_, "ready " + where); }
  void value(const std::string& name, double value) const;
  void failed(const std::string& text) const;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// If `line` begins with `word` and a space, or is the word: the rest of it.
bool begins(const std::string& line, const std::string& word, std::string& rest);

}  // namespace viabench

#endif
