// Long messages without a copy at either end: the receiver opens its buffer to the peer (a sink), which writes there
// from the program's memory. See lane_sinks.h for what they tell each other.
#ifndef VIADUCT_SOVIA_MESSAGE_RENDEZVOUS_H
#define VIADUCT_SOVIA_MESSAGE_RENDEZVOUS_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/lane/waiting.h"
#include "sovia/socket/lane_pin.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// A buffer of a receiving call that is open to the peer. It ends with the call.
class OpenSink {
 public:
  explicit OpenSink(Socket& socket) : socket_(socket) {}
  ~OpenSink() { close(); }
  OpenSink(const OpenSink&) = delete;

  // For message `number`. False: it can't be had now.
  bool open(std::uint32_t number, const iovec& buffer);
  bool is_open() const { return static_cast<bool>(lane_); }
  enum class State { kWaits, kPlaced, kVoid };
  // kPlaced: the peer has written a message of that length.
  State look(std::uint32_t& length);
  // Waits until it is placed or void, or, with Signals::kInterrupt, until there is something else to receive. Handlers
  // of the program's don't run. As wait_for().
  Woken await(std::uint64_t deadline, Signals signals);
  // The peer may not begin to write any more. One that has begun goes on: await() and look() follow.
  void revoke();
  // The lane ends, as its peer does not answer: the message comes some other way, or has come.
  void give_up();
  void close();

 private:
  Socket& socket_;
  LanePin lane_;
  std::byte* at_ = nullptr;
  std::uint32_t memory_ = 0;
};

// The peer need not wait for a sink for message `number`.
void refuse_sink(Socket& socket, std::uint32_t number);

// A message of a sending call that is on its way to the peer's buffer.
class RendezvousSend {
 public:
  explicit RendezvousSend(Socket& socket) : socket_(socket) {}
  ~RendezvousSend();
  RendezvousSend(const RendezvousSend&) = delete;

  // False: the message goes in the stream.
  bool begin(const iovec& message, std::uint32_t number);
  // Waits for the peer's sink, until then at most.
  bool await_target(std::uint64_t deadline);
  bool has_target() const;
  // Writes the message there. False: the peer may have it, or not.
  bool write();

 private:
  bool is_lost() const;

  Socket& socket_;
  LanePin lane_;
  const std::byte* data_ = nullptr;
  std::uint32_t bytes_ = 0, number_ = 0, memory_ = 0;
};

}  // namespace viaduct::sovia

#endif
