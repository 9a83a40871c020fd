// Transcript: what one end of a case has seen, a line at a time, in a file. Lines that begin with
// '#' are remarks; they are not compared.
#ifndef SEMANTICS_TRANSCRIPT_H
#define SEMANTICS_TRANSCRIPT_H

#include <cstdint>
#include <string>
#include <string_view>

namespace semantics {

class Transcript {
 public:
  Transcript() = default;
  explicit Transcript(const std::string& path);  // continues a file that is there
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;
  ~Transcript();

  // Written at once, in one piece, so that a process that is killed has said all that it had to
  // say.
  void line(std::string_view text) const;

 private:
  int fd_ = -1;
};

// Transcripts show names instead of numbers.
std::string errno_name(int error);
std::string signal_name(int number);
std::string poll_bits(short bits);
std::string epoll_bits(std::uint32_t bits);
std::string exit_status(int status);  // as waitpid gives it
// Short printable text itself; else its length and checksum.
std::string shown(std::string_view bytes);

}  // namespace semantics

#endif
