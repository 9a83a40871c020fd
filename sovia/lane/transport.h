// The packets of a lane on a VI. The tests have a Transport of their own.
//
// Each packet sent has a place: data places have a chunk of memory each, control places a few bytes.
// Packets complete in the order in which they were posted.
#ifndef VIADUCT_SOVIA_LANE_TRANSPORT_H
#define VIADUCT_SOVIA_LANE_TRANSPORT_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

class Transport {
 public:
  static constexpr std::uint32_t kControlBytes = 64;  // as many as Hello has

  virtual std::byte* data_chunk(std::uint32_t place) = 0;
  virtual std::byte* control_bytes(std::uint32_t place) = 0;
  // The packet that has come to a place; writable until the place is posted again.
  virtual std::byte* received(std::uint32_t place) = 0;

  // False if the connection is over, or the NIC is out of descriptors.
  virtual bool post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) = 0;
  virtual bool post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) = 0;
  // Sends from memory of the program's, which must stay as it is until the packet completes.
  virtual bool post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes,
                           std::uint32_t memory, std::uint32_t immediate) = 0;
  virtual bool post_receive(std::uint32_t place) = 0;
  // Has at least so many receives in use, the first places: posts those that never were.
  virtual bool use_receives(std::uint32_t count) = 0;

  // To be called when a post above has returned false: the lane carries nothing more. Called with the lane locked.
  virtual void failed() = 0;

  // Has the next packet written to memory of the program's instead of a receive, if it has no more than `bytes`
  // (VipxRedirect). No packet may have come that was not taken in yet. False: one has, or this VI can't redirect.
  virtual bool redirect(std::byte* to, std::uint32_t bytes, std::uint32_t memory) = 0;
  // Ends a redirect(); each successful redirect() needs one. True: the first packet after it was written to that
  // memory.
  virtual bool unredirect() = 0;

  // Whether the lane holds data back. If the process is killed then, the peer learns that something is missing.
  virtual void hold(bool holds) = 0;

  // Whether something waits for the completion of the packets that are posted from now on (VipxSetPatient).
  virtual void set_patient(bool patient) = 0;

  // The number of packets that have completed since the last call.
  virtual std::uint32_t completed() = 0;

 protected:
  ~Transport() = default;
};

}  // namespace viaduct::sovia

#endif
