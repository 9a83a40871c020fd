// The record with which a direction goes on through the kernel after a lane (Resume, lane/packet.h), at its receiver.
//
// It can lie in memory that several processes share. They take it one at a time; a process that dies meanwhile does not
// block the others. Other processes may write anything there: what is read is only believed within the limits that this
// process has measured itself.
#ifndef VIADUCT_SOVIA_SOCKET_RESUME_RECORD_H
#define VIADUCT_SOVIA_SOCKET_RESUME_RECORD_H

#include <atomic>
#include <cstdint>

#include "sovia/lane/packet.h"

namespace viaduct::sovia {

class ResumeRecord {
 public:
  // The kernel's next bytes may begin with a record of the peer whose Hello has `token`. `received`: the bytes that have come
  // over the lane. `finished`: the peer has ended its lane, and may know that all has come: without a record the bytes
  // are new. Else it knew of nothing that had come: without a record they are the lane's, from its first
  // byte on. `complete`: nothing is known to be missing, so the kernel's stream may end instead.
  void expect(const std::uint8_t* token, std::uint64_t received, bool finished, bool complete);
  // Whether there may be none, and the bytes are new then.
  bool may_be_missing() const { return finished_.load(std::memory_order_relaxed); }
  void forget() { state_.store(State::kNone); }
  bool is_expected() const { return state_.load(std::memory_order_relaxed) != State::kNone; }
  // Takes the record from the kernel, and drops the bytes behind it that the lane has brought. `taken` counts the kernel's
  // bytes. kEnded: the kernel's stream has ended instead. kForged: it goes on behind bytes that have not come. kReset: bytes
  // are lost, or the kernel has an error to return. The error stays with the kernel, for whichever process is to tell of
  // it; where one comes meanwhile, errno has it, and is 0 else.
  enum class Take : std::uint8_t { kDone, kEnded, kAgain, kForged, kReset };
  Take take(int fd, std::uint64_t& taken);
  // A lane has brought `received` bytes: how many of these come again behind the record of the peer whose Hello has `token`. 0,
  // too, if the kernel has no record behind its next `at` bytes, or these are more than a megabyte.
  static std::uint64_t brought_twice(int fd, std::uint64_t at, const std::uint8_t* token, std::uint64_t received);
  // The other one expects the record in place of this one.
  void move_to(ResumeRecord& to);
  // Whether these first bytes of the kernel's can begin a record of the peer whose Hello has `token`.
  static bool can_begin(const std::uint8_t* token, const Resume& resume, std::size_t bytes);

 private:
  enum class State : std::uint8_t { kNone, kExpected, kSkipping };
  Take take_alone(int fd, std::uint64_t& taken);
  Take take_head(int fd, std::uint64_t& taken);

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> finished_{false}, complete_{false};
  std::atomic<std::int32_t> taker_{0};  // the process that is taking it
  std::uint8_t token_[kTokenBytes] = {};
  std::atomic<std::uint64_t> received_{0}, skip_{0};
  std::atomic<std::uint64_t> doubtful_since_{0};  // when a part of what may be a record was first seen
};

}  // namespace viaduct::sovia

#endif
