// Long messages without a copy at either end: the receiver opens its buffer to the peer (a sink), who writes there
// from the program's memory. See lane_sinks.h for what they tell each other.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_RENDEZVOUS_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_RENDEZVOUS_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/lane/waiting.h"
#include "sovia/socket/socket_send.h"

namespace viaduct::sovia {

class SocketRendezvous : public SocketSend {
 protected:
  ~SocketRendezvous() = default;

  // ------------------------------------------------------------------ receiving
  // A buffer of a call's that is open to the peer. It ends with the call.
  class OpenSink {
   public:
    OpenSink() = default;
    ~OpenSink() { close(); }
    OpenSink(const OpenSink&) = delete;
    // For message `number`. False: it can't be had now.
    bool open(SocketRendezvous& socket, std::uint32_t number, const iovec& buffer);
    bool is_open() const { return end_ != nullptr; }
    enum class State { kWaits, kPlaced, kVoid };
    State look(std::uint32_t& length);
    void revoke();
    // The lane ends, as its peer does not answer: the message comes some other way, or has come.
    void give_up();
    void close();

   private:
    SocketRendezvous* socket_ = nullptr;
    LaneEndpoint* end_ = nullptr;
    std::byte* at_ = nullptr;
    std::uint32_t memory_ = 0;
  };
  // Waits for a sink, or for something else to receive. Handlers of the program's don't run. As wait_for().
  Woken await_sink(OpenSink& sink, std::uint64_t deadline, Signals signals);
  // The peer need not wait for a sink.
  void refuse_sink(std::uint32_t number);

  // ------------------------------------------------------------------ sending
  // A message of the program's that is on its way to the peer's buffer.
  class Placing {
   public:
    explicit Placing(SocketRendezvous& socket) : socket_(socket) {}
    ~Placing();
    Placing(const Placing&) = delete;
    // False: the message goes in the stream.
    bool begin(const iovec& message, std::uint32_t number);
    // Waits for the peer's sink, until then at most.
    bool await_target(std::uint64_t deadline);
    bool has_target() const;
    // Writes the message there. False: the peer may have it, or not.
    bool write();

   private:
    friend class SocketRendezvous;
    bool is_lost() const;
    SocketRendezvous& socket_;
    LaneEndpoint* end_ = nullptr;
    const std::byte* data_ = nullptr;
    std::uint32_t bytes_ = 0, number_ = 0, memory_ = 0;
  };

 private:
};

}  // namespace viaduct::sovia

#endif
