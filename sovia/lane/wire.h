// The VI below a lane. The tests have one of their own.
//
// Each packet sent has a place: data places have a chunk of memory each, control places a few bytes.
// Packets complete in the order in which they were posted.
#ifndef VIADUCT_SOVIA_LANE_WIRE_H
#define VIADUCT_SOVIA_LANE_WIRE_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

class Wire {
 public:
  static constexpr std::uint32_t kControlBytes = 64;  // as many as Hello has

  virtual std::byte* data_chunk(std::uint32_t place) = 0;
  virtual std::byte* control_bytes(std::uint32_t place) = 0;
  // The packet that has come there; writable until the place is posted again.
  virtual std::byte* received(std::uint32_t place) = 0;

  // False if the connection is over, or the NIC is out of descriptors.
  virtual bool post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) = 0;
  virtual bool post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) = 0;
  // Sends from memory of the program's, which must stay as it is until the packet completes.
  virtual bool post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes,
                           std::uint32_t memory, std::uint32_t immediate) = 0;
  virtual bool post_receive(std::uint32_t place) = 0;

  // One of the above was false: the lane carries nothing more. Called with the lane locked.
  virtual void failed() {}

  // The next packet's bytes go to memory of the program's instead of to a receive, if there are not
  // more of them than that (VipxRedirect). Nothing must have come that was not taken in yet. False:
  // they do not, or this can't be done here.
  virtual bool redirect(std::byte* to, std::uint32_t bytes, std::uint32_t memory) {
    static_cast<void>(to), static_cast<void>(bytes), static_cast<void>(memory);
    return false;
  }
  // To follow each success. True: the first packet since has gone there.
  virtual bool unredirect() { return false; }

  // Whether the lane holds data back that it has not posted: if the process is killed now, the peer must learn that
  // some is missing.
  virtual void set_more(bool more) { static_cast<void>(more); }

  // Whether this end and the peer may write to memory that the other opens.
  virtual bool writes() const { return false; }
  // Writes to such memory of the peer's, from memory of the program's, which must stay as it is until this
  // completes. It is there before what is posted later.
  virtual bool post_write(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                          std::uint64_t to, std::uint32_t to_memory) {
    static_cast<void>(place), static_cast<void>(data), static_cast<void>(bytes), static_cast<void>(memory);
    static_cast<void>(to), static_cast<void>(to_memory);
    return false;
  }
  // Whether this end may also read such memory of the peer's, and the peer this end's.
  virtual bool reads() const { return false; }
  // Reads it to memory of the program's, where it is when this has completed.
  virtual bool post_read(std::uint32_t place, std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                         std::uint64_t from, std::uint32_t from_memory) {
    static_cast<void>(place), static_cast<void>(data), static_cast<void>(bytes), static_cast<void>(memory);
    static_cast<void>(from), static_cast<void>(from_memory);
    return false;
  }
  // Opens memory to this lane's peer alone, until close_memory(). 0: it can't be had.
  enum class Access : std::uint8_t { kWrite = 1, kRead = 2, kBoth = 3 };
  virtual std::uint32_t open_memory(std::byte* at, std::size_t bytes, Access access) {
    static_cast<void>(at), static_cast<void>(bytes), static_cast<void>(access);
    return 0;
  }
  virtual void close_memory(std::byte* at, std::uint32_t memory) {
    static_cast<void>(at), static_cast<void>(memory);
  }

  // Packets that have completed since the last call.
  virtual std::uint32_t completed() = 0;

 protected:
  ~Wire() = default;
};

}  // namespace viaduct::sovia

#endif
