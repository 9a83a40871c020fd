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

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/grant/granted_layout.h"
#include "xdp/local/local_peers.h"
#include "xdp/port.h"
#include "xdp/train/train_socket.h"
#include "xdp/xsk/xsk_queue.h"

namespace viaduct {

// A frame of the least length that there is.
using WholeFrame = std::array<std::byte, 60>;

class GrantedPort {
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

  std::size_t receive(std::span<Frame> frames) {
    const std::size_t n = local_ == nullptr ? queue_.receive(frames) : receive_both(frames);
    return trains_.is_due() && n < frames.size() ? n + receive_trains(frames.subspan(n)) : n;
  }
  void release(std::span<const Frame> frames) {
    if (local_ == nullptr && !trains_.knows_any()) return queue_.release(frames);
    release_each(frames);
  }
  std::size_t reserve(std::span<Frame> frames) { return queue_.reserve(frames); }
  // The frames are all of reserve(), or one of reserve_for().
  void submit(std::span<const Frame> frames) {
    if (is_local(frames)) return local_->submit(frames.front());
    queue_.submit(frames);
  }
  void submit_bulk(std::span<const Frame> frames);
  void cancel(std::span<const Frame> frames) {
    if (!is_local(frames)) queue_.cancel(frames);
  }
  void flush() {
    if (local_ != nullptr) wake_local();
    queue_.flush();
    if (!trains_.waiting().empty()) [[unlikely]] flush_train();
  }

  // Whether receive() would return something, or sent buffers wait for being taken back: one look
  // at memory; where trains may come a system call now and then.
  bool has_frames() {
    return queue_.has_frames() || held_.count != 0 || (local_ != nullptr && local_->has_frames()) ||
           (trains_.is_due() && trains_.look());
  }

  // To be called before a thread sleeps on descriptor(): from now on all frames but those of trains make it readable,
  // until the next receive(). False: something has come.
  bool prepare_to_sleep() {
    return local_ == nullptr || (held_.count == 0 && local_->prepare_to_sleep());
  }

  std::uint32_t payload_limit(const MacAddress& to) const {
    if (local_ != nullptr && local_->has(to)) return local::LocalPeers::kPayloadLimit;
    return trains_.knows(to) ? trains_.payload_limit() : layout_.mtu;
  }
  bool reserve_for(const MacAddress& to, std::uint32_t bytes, Frame& frame) {
    return local_ != nullptr && local_->reserve(to, bytes, frame);
  }

  // A pair of rings, see LocalPeers::add(). `wake` makes its receiver look at its rings; its addresses
  // are filled in here.
  const char* add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end,
                        const WholeFrame& wake);
  void end_local(const MacAddress& peer) {
    if (local_ != nullptr) local_->end(peer);
  }
  const local::LocalPeers* local() const { return local_; }

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
  bool is_local(std::span<const Frame> frames) const {
    return local_ != nullptr && !frames.empty() && (frames.front().id & local::LocalPeers::kId) != 0;
  }
  std::size_t receive_both(std::span<Frame> frames);
  void hold();
  void release_each(std::span<const Frame> frames);
  void wake_local();
  std::size_t receive_trains(std::span<Frame> frames);
  void flush_train();

  // Frames from the kernel that are handed out behind what is in the rings.
  struct Held {
    static constexpr std::uint32_t kMost = 32;
    Frame frames[kMost];
    std::uint32_t count;
    bool for_train;  // frames of the train go behind them
  };

  GrantedLayout layout_{};
  Held held_{};
  int socket_ = -1;
  void* area_ = nullptr;
  std::size_t area_bytes_ = 0;
  void* assembly_ = nullptr;  // see XskQueue::assembly_bytes()
  std::size_t assembly_bytes_ = 0;
  void* state_ = nullptr;
  std::size_t state_bytes_ = 0;
  PortCounters counters_{};
  XskQueue queue_;
  local::LocalPeers* local_ = nullptr;  // none so far
  WholeFrame wake_;
  TrainSocket trains_;
};

}  // namespace viaduct

#endif
