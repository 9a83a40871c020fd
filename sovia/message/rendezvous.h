// Long messages without a copy at either end: the receiver opens its buffer to the peer (a sink), which writes there
// from the program's memory. lane_sinks.h has the protocol.
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

  // Opens `buffer` for message `number`. False: that can't be done now.
  bool open(std::uint32_t number, const iovec& buffer);
  bool is_open() const { return static_cast<bool>(lane_); }
  enum class State { kWaits, kPlaced, kVoid };
  // kPlaced: the peer has written a message of that length.
  State look(std::uint32_t& length);
  // Waits until the message is placed or the sink is void; with Signals::kInterrupt also until there is something else
  // to receive. The program's signal handlers don't run. Returns as wait_for() does.
  Woken await(std::uint64_t deadline, Signals signals);
  // Asks the peer not to begin to write any more. A peer that has begun goes on: await() and look() have to follow.
  void revoke();
  // Ends the lane, as its peer does not answer. The message comes some other way, or has come.
  void give_up();
  void close();

 private:
  Socket& socket_;
  LanePin lane_;
  std::byte* at_ = nullptr;
  std::uint32_t memory_ = 0;
};

// Tells the peer not to wait for a sink for message `number`.
void refuse_sink(Socket& socket, std::uint32_t number);

// A message of a sending call that is on its way to the peer's buffer.
class RendezvousSend {
 public:
  explicit RendezvousSend(Socket& socket) : socket_(socket) {}
  ~RendezvousSend();
  RendezvousSend(const RendezvousSend&) = delete;

  // False: the message goes in the stream.
  bool begin(const iovec& message, std::uint32_t number);
  // Sends the offer at once, which may wait for more data as any small send.
  void push_offer();
  // Waits for the peer's sink until the deadline.
  bool await_target(std::uint64_t deadline);
  bool has_target() const;
  // Writes the message to the sink. False: the lane is lost, and it is not known whether the peer has the message.
  bool write();

 private:
  Socket& socket_;
  LanePin lane_;
  const std::byte* data_ = nullptr;
  std::uint32_t bytes_ = 0, number_ = 0, memory_ = 0;
};

}  // namespace viaduct::sovia

#endif
