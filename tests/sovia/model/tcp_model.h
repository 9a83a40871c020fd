// Connection: the reference model, a TCP connection as POSIX and Linux have it, which says what a call may answer.
//
// An answer narrows what the model knows. What is on its way to an end is known as a range: bytes that the sender's
// calls have accepted (`sent`), and those that the receiver surely has (`arrived`). An end of a stream or a reset has
// an Arrival. After a settled point the ranges are points, and each call has one right answer.
//
//          end 0                              end 1
//   Incoming of end 0  <------------------  sends of end 1
//   sends of end 0     ------------------>  Incoming of end 1
#ifndef SOVIA_MODEL_TCP_MODEL_H
#define SOVIA_MODEL_TCP_MODEL_H

#include <cstdint>
#include <string>

namespace model {

// Outstanding bytes that a connection always has room for.
constexpr std::uint64_t kRoom = 12 * 1024;

enum class Arrival : std::uint8_t { kNo, kMay, kComing, kHere };

// When a call ends: at once or soon, perhaps, or not before another call.
enum class Ends : std::uint8_t { kNow, kPerhaps, kNotYet };

// Bits of the errors that sk_err may hold.
constexpr unsigned kNone = 1, kConnectionReset = 2, kBrokenPipe = 4;

struct Incoming {
  std::uint64_t sent = 0;     // accepted of the peer's calls that have ended
  std::uint64_t pending = 0;  // of a call that waits, at most so many more
  std::uint64_t arrived = 0;
  std::uint64_t read = 0;
  bool cut = false;           // bytes behind `arrived` may be lost by a reset
  bool corked = false;        // the last bytes wait for more

  std::uint64_t most() const { return sent + pending - read; }
  std::uint64_t least() const { return arrived > read ? arrived - read : 0; }
};

struct End {
  int references = 0;
  bool closed = false, killed = false;
  bool closed_shut = false;  // the sending direction was shut down before
  bool shut_read = false, shut_write = false;
  bool nonblocking = false, linger_zero = false;
  int limit_ms = 0;
  Arrival fin = Arrival::kNo, reset = Arrival::kNo;
  unsigned errors = kNone;
  bool error_taken = false;
  Incoming in;
};

struct Receive {
  std::uint32_t size = 0;
  bool peek = false, all = false, waits = true, drops = false, file = false;
  bool interrupted = false;  // a signal has come
  bool limited = false;      // by SO_RCVTIMEO, as it was when the call began
};

struct Send {
  std::uint32_t size = 0;
  bool waits = true, silent = false, more = false, vector = false;
  bool was_shut = false;     // before the call began
  bool peer_was_shut = false;  // in both directions, before the call began
  bool interrupted = false;
};

struct Answer {
  long result = 0;
  int error = 0;
  int pipe_signals = 0;
  std::uint64_t wrong = 0;
};

struct Mask {
  std::uint32_t must = 0, may = 0;
};

// Functions that take an answer return what is wrong with it; an empty text: nothing.
class Connection {
 public:
  End& end(int which) { return ends_[which]; }
  const End& end(int which) const { return ends_[which]; }

  Ends receive_ends(int which, const Receive& call) const;
  Ends send_ends(int which, const Send& call) const;
  std::string receive(int which, const Receive& call, const Answer& answer);
  std::string send(int which, const Send& call, const Answer& answer);
  std::string shutdown(int which, int how, const Answer& answer);
  std::string error(int which, int value);
  std::string unread(int which, int value) const;
  Mask mask(int which) const;

  // The end's last descriptor has gone.
  void close(int which, bool killed);
  // All that is on its way has come.
  void settle(int which);
  bool settled(int which) const;
  bool settled() const { return settled(0) && settled(1); }

 private:
  std::string received(End& end, const Receive& call, const Answer& answer);
  std::string ended(End& end, const Receive& call);
  std::string not_received(End& end, const Receive& call, int error);
  std::string sent(int which, const Send& call, long n);
  std::string not_sent(int which, const Send& call, const Answer& answer);
  void reset_comes(End& end, Arrival how);
  void take_error(End& end);

  End ends_[2];
};

}  // namespace model

#endif
