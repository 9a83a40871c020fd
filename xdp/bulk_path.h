// The path of long messages' frames through a port: trains (xdp/train/train_socket.h), or rings in memory
// (xdp/local/local_peers.h). It is part of its port: the same thread, the same buffers, the same flush().
//
// Each port has a bulk path. A port without trains and rings has a NoBulkPath, where all frames go the way of other
// frames.
#ifndef VIADUCT_XDP_BULK_PATH_H
#define VIADUCT_XDP_BULK_PATH_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/port.h"
#include "xdp/train/train_address.h"

namespace viaduct {

class BulkPath {
 public:
  virtual ~BulkPath() = default;

  // Makes a frame for a train one that may go as others do.
  using Prepare = void (*)(Frame& frame);

  // As Port::submit(), for frames of payload_limit() bytes and frames that must not overtake these: they may go by
  // another path, in this order. `prepare`: for those that do not.
  virtual void submit_bulk(std::span<const Frame> frames, Prepare prepare) = 0;

  // Whether submit_pieces() may be given addresses of this program, by the stack's number: they are this process's own.
  virtual bool takes_pieces_of(std::uint32_t program) const = 0;
  // As submit_bulk(), for a frame by train that begins with `head` and goes on with `pieces`, which lie where they are until
  // flush(). A frame that can't be sent so is lost. False, and nothing done: the path takes none, or not so many pieces.
  virtual bool submit_pieces(std::span<const std::byte> head, std::span<const iovec> pieces) = 0;

  // As Port::mtu(), for frames of long messages to this address. It is more if they need not leave the host (such a
  // frame is had by reserve_for()), and less where a path for them adds headers of its own.
  virtual std::uint32_t payload_limit(const MacAddress& to) const = 0;

  // Takes one empty buffer for a frame of at most `bytes` (Ethernet header included) to this address, for
  // which payload_limit() is, or has been, more than mtu(). False: there is none now, or the peer has gone.
  // Until the frame is submitted or cancelled no other may be reserved for that address.
  virtual bool reserve_for(const MacAddress& to, std::uint32_t bytes, Frame& frame) = 0;

  // The address at which trains reach this port; none if there are no trains.
  virtual TrainAddress train_address() const = 0;
  // The peer says that trains reach it at this address: they may come from there from now on, and be sent there with
  // submit_bulk(). `attempt`: which of its addresses to try. False: there is no way.
  virtual bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt) = 0;
  // No connection to the peer is left.
  virtual void leave_train(const MacAddress& peer) = 0;
  // Whether a received frame came by train; to be asked before the frame is released.
  virtual bool came_by_train(const Frame& frame) const = 0;
  // A train may have come: the next Port::receive() is to look for it.
  virtual void trains_came() {}
};

class NoBulkPath final : public BulkPath {
 public:
  explicit NoBulkPath(Port& port) : port_(port) {}

  void submit_bulk(std::span<const Frame> frames, Prepare prepare) override {
    for (Frame frame : frames) {
      prepare(frame);
      port_.submit({&frame, 1});
    }
  }
  bool takes_pieces_of(std::uint32_t) const override { return false; }
  bool submit_pieces(std::span<const std::byte>, std::span<const iovec>) override { return false; }
  std::uint32_t payload_limit(const MacAddress&) const override { return port_.mtu(); }
  bool reserve_for(const MacAddress&, std::uint32_t, Frame&) override { return false; }
  TrainAddress train_address() const override { return {}; }
  bool learn_train(const MacAddress&, const TrainAddress&, unsigned) override { return false; }
  void leave_train(const MacAddress&) override {}
  bool came_by_train(const Frame&) const override { return false; }

 private:
  Port& port_;
};

}  // namespace viaduct

#endif
