// A granted port as the program sees it: an AF_XDP socket that the agent has made, bound and handed
// over. The program needs no capability for anything that is done here.
//
// Neither a Port nor a BulkPath by inheritance: libvipl's stack is compiled for this one kind of port and calls
// it directly. The functions mean what they mean in both. Nothing here allocates, throws or needs more
// than the C library. All state is in the object, so it may lie in memory that is placed by hand.
//
// Other programs of the same host are reached through memory (local/local_peers.h) once the agent has
// handed over the rings: by frames that were reserved with reserve_for(). All other frames to them go the
// way that they went before; in particular wake-ups do, so that a sleeping thread needs to watch one
// descriptor only.
#ifndef VIADUCT_XDP_GRANT_GRANTED_PORT_H
#define VIADUCT_XDP_GRANT_GRANTED_PORT_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/grant/granted_layout.h"
#include "xdp/grant/granted_paths.h"
#include "xdp/port.h"
#include "xdp/train/train_socket.h"
#include "xdp/xsk/xsk_queue.h"

namespace viaduct {

extern template class GrantedPaths<XskQueue, TrainSocket>;

class GrantedPort : public GrantedPaths<XskQueue, TrainSocket> {
 public:
  GrantedPort() = default;
  ~GrantedPort();
  GrantedPort(const GrantedPort&) = delete;
  GrantedPort& operator=(const GrantedPort&) = delete;

  // Maps rings and UMEM. Takes both descriptors over (also on failure). Returns nullptr, or in a
  // few words what failed; errno then says why.
  const char* open(int socket, int umem, const GrantedLayout& layout);
  // Opens trains of these frame types; after open(). Takes all descriptors over; `pipe` is that of
  // TrainPages::open().
  // `guard`: TrainSocket::keep_guard().
  const char* open_trains(int socket, int guard, const int (&pipe)[2], const TrainAddress& own, std::uint32_t types);

  std::uint32_t payload_limit(const MacAddress& to) const { return GrantedPaths::payload_limit(to, layout_.mtu); }
  const char* add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end,
                        const WholeFrame& wake) {
    return GrantedPaths::add_local(layout_.address, lendable(), peer, program, file, end, wake);
  }

  std::uint32_t mtu() const { return layout_.mtu; }
  TrainAddress train_address() const { return trains_.is_open() ? trains_.address() : TrainAddress{}; }
  bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt) {
    return trains_.learn(peer, at, attempt);
  }
  void leave_train(const MacAddress& peer) { trains_.leave(peer); }
  bool came_by_train(const Frame& frame) const { return trains_.owns(frame); }
  const TrainSocket& trains() const { return trains_; }
  MacAddress address() const { return layout_.address; }
  std::uint16_t ether_type() const { return layout_.ether_type; }
  std::uint32_t lendable() const;
  std::uint32_t backlog() const { return queue_.backlog(); }
  // Readable when frames have come. -1: not open.
  int descriptor() const { return socket_; }
  // Readable when trains have come: the thread that sees it, any, must call trains_came(). A look at the
  // trains is a system call, which a thread that a frame has woken does without. -1: none.
  int train_descriptor() const { return trains_.descriptor(); }
  void trains_came() { trains_.expect(); }
  // All descriptors that the port has; -1: none.
  static constexpr int kDescriptors = 5;
  void descriptors(int (&out)[kDescriptors]) const {
    int pipe[2];
    trains_.pages().descriptors(pipe);
    out[0] = socket_, out[1] = trains_.descriptor(), out[2] = pipe[0], out[3] = pipe[1];
    out[4] = trains_.guard();
  }
  PortCounters counters();
  bool reaches(const MacAddress&) const { return true; }
  // The port itself is its bulk path.
  GrantedPort& bulk_path() { return *this; }

 private:
  const char* map(int umem);
  void close();

  GrantedLayout layout_{};
  int socket_ = -1;
  void* area_ = nullptr;
  std::size_t area_bytes_ = 0;
  void* assembly_ = nullptr;  // see XskQueue::assembly_bytes()
  std::size_t assembly_bytes_ = 0;
  void* state_ = nullptr;
  std::size_t state_bytes_ = 0;
  PortCounters counters_{};
};

}  // namespace viaduct

#endif
