// The VI below a datagram lane, on Unreliable Delivery. The tests have a DatagramTransport of their own.
//
// Messages are sent from places and come to places, each with room for the longest datagram. They complete
// in the order in which they were posted.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_TRANSPORT_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_TRANSPORT_H

#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>

#include "sovia/lane/process_nic.h"

namespace viaduct::sovia::datagram {

inline constexpr std::uint32_t kMostBytes = 4096;  // of a datagram that goes over a lane
inline constexpr std::uint32_t kSendPlaces = 256;
inline constexpr std::uint32_t kReceivePlaces = 512;

class DatagramTransport {
 public:
  // VIP_NOT_DONE while the peer has not answered, VIP_SUCCESS when it has.
  virtual VIP_RETURN connected() = 0;
  virtual std::byte* to_send(std::uint32_t place) = 0;
  virtual const std::byte* received(std::uint32_t place) = 0;
  // False if the connection is over.
  virtual bool post(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) = 0;
  virtual bool post_receive(std::uint32_t place) = 0;
  // The number of messages that have left since the last call.
  virtual std::uint32_t completed() = 0;
  // Ends the connection and frees everything, this object included.
  virtual void destroy() = 0;

  ReceiveOwner receives;

 protected:
  ~DatagramTransport() = default;
};

}  // namespace viaduct::sovia::datagram

#endif
