// Call, Request and Reply: the controller's messages to a process of a program, and the answers.
//
// A process does one call at a time, on descriptors that the request names by their numbers. Requests and replies go
// over a Unix socket of raw system calls, which no preloaded library sees.
#ifndef SOVIA_MODEL_CALL_H
#define SOVIA_MODEL_CALL_H

#include <sys/types.h>

#include <cstdint>

namespace model {

enum class Call : std::uint8_t {
  kListen,    // fd, other: port
  kConnect,   // to address and port
  kAccept,
  kWarm,      // small messages each way, until the bytes go past the kernel or the time is over
  kSend,
  kReceive,
  kShutdown,
  kClose,
  kDup,
  kDup2,
  kFork,
  kPass,      // SCM_RIGHTS to the process `other`
  kTake,      // from SCM_RIGHTS
  kEpollMake,
  kEpollChange,
  kEpollWait,
  kPoll,
  kSelect,
  kUnread,    // FIONREAD
  kOption,
  kError,     // SO_ERROR
  kNonblocking,
  kSettle,    // waits until so many bytes are unread, and for bits of poll()
  kExit,
};

// The function that moves the data.
enum class Style : std::uint8_t { kPlain, kFile, kVector, kMessage };

struct Request {
  Call call{};
  Style style{};
  int fd = -1;
  int other = 0;
  int flags = 0;
  std::uint32_t events = 0;
  int limit_ms = 0;
  std::uint32_t size = 0;
  std::uint32_t pattern = 0;
  std::uint64_t offset = 0;
};

struct Reply {
  long result = 0;
  int error = 0;
  int pipe_signals = 0;        // SIGPIPE during the call
  int fd = -1;                 // a descriptor that the process has got
  std::uint32_t events = 0;
  std::uint64_t wrong = 0;     // bytes that are not the pattern's
  std::uint64_t kernel_bytes = 0;  // sent by the kernel's TCP on this descriptor so far
};

struct Hello {
  int name = 0;  // of the process, as the controller calls it
  pid_t pid = 0;
  int lowest = 0;  // free descriptor
};

}  // namespace model

#endif
