// A socket: a kernel TCP socket, and beside it, once the connection is worth it, a lane over VIA.
//
// Each direction has a route, the kernel or the lane. The sender of a direction alone decides on it:
// it goes up to the lane by a START packet, which says how many bytes it has sent through the kernel
// before, and goes down by a FIN packet; the receiver reads on where the sender said. Whatever is
// special about a connection (end, reset, urgent data, options) happens in the kernel, for which a
// direction is down.
//
// A socket is shared by all descriptors of the process that were made of each other by dup. All
// functions may be called by several threads at once. `fd` is any descriptor of the socket.
#ifndef VIADUCT_SOVIA_SOCKET_H
#define VIADUCT_SOVIA_SOCKET_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>

#include "sovia/lock.h"
#include "sovia/reason.h"

namespace viaduct::sovia {

class Lane;
class DirectReceive;
class LaneEnd;
class SocketRef;
struct Holders;
struct Residue;

// Control data that the program has asked for by options, as bits.
inline constexpr unsigned kControlUnread = 1;  // TCP_INQ
inline constexpr unsigned kControlTime = 2;    // SO_TIMESTAMP
inline constexpr unsigned kControlTimeNs = 4;  // SO_TIMESTAMPNS

class Socket {
 public:
  // ------------------------------------------------------------------ data
  // As recvmsg and sendmsg for `count` pieces, without address and control data: bytes, or -1 with
  // errno. They wait as the socket's modes and the flags say; a send may raise SIGPIPE.
  ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags);
  ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags);

  // Whether data of either direction may go over a lane now or soon. If not, every call may go
  // straight to the kernel; if so, calls that the kernel alone should do need leave() first.
  bool concerned() const { return lane_wanted_.load(std::memory_order_acquire); }

  // Whether a receive that does not wait would find nothing, and is spared the way there. Gives the
  // lanes a turn. False when in doubt.
  bool finds_nothing(int flags);
  // Nothing is to be read, and the lane is to read it from: so it stays until the next stir().
  bool is_quiet() const { return quiet_.load(std::memory_order_acquire); }
  // Something about receiving may have changed. To be called after the change.
  void stir() {
    if (quiet_.load(std::memory_order_relaxed)) quiet_.store(false, std::memory_order_release);
  }

  // The lane has so many bytes for receive(). With the lane locked.
  void note_unread(std::size_t bytes) { lane_left_.store(bytes, std::memory_order_relaxed); }

  // Whether the next bytes are the kernel's, and those after them too: for calls whose control data
  // only the kernel has.
  bool receives_in_kernel();
  unsigned control_wanted() const { return control_wanted_.load(std::memory_order_relaxed); }

  // Bytes that receive() would find, for FIONREAD. `kernel_bytes`: what the kernel says.
  int unread(int kernel_bytes);
  // Bytes sent that the peer has not got, for SIOCOUTQ.
  int unsent(int kernel_bytes);
  // Whether unread data lies on the lane, before anything the kernel has (SIOCATMARK is then 0).
  bool lane_has_data();

  // ------------------------------------------------------------------ readiness
  // Instead of asking the kernel for `wanted` (POLL*), ask it for this ...
  short ask_kernel(short wanted);
  // ... and this is what to tell the program when the kernel has answered `kernel_says`. Short and
  // without a system call, but when data and the end may have come together and `fd` is given; with
  // kernel_says 0 it is what the lane alone has to say.
  short answer(short wanted, short kernel_says, int fd = -1);

  // Whether the kernel's answers are the program's, now and for some time ...
  bool kernel_alone() const { return !concerned() && residue_ == nullptr && kept_ == nullptr; }
  // ... or at least now.
  bool kernel_knows_all();

  // Registrations in epoll sets, which are told of changes: ready.h, epoll_set.h.
  std::atomic<void*>& watchers() { return watchers_; }
  const std::atomic<void*>& watchers() const { return watchers_; }

  // Changes whenever what ask_kernel() says may have changed: who sleeps on the former answer must
  // ask again.
  std::uint32_t routes() const { return routes_.load(std::memory_order_acquire); }
  void routes_changed() {
    routes_.fetch_add(1, std::memory_order_release);
    stir();
  }

  // ------------------------------------------------------------------ leaving the lane
  // Both directions go down to the kernel and stay there until the socket may go up again. Returns
  // when the peer has gone down too and all that it sent before has come, which then is unread. A peer
  // that does not do so in time loses the lane, and what it sends again comes after a record
  // (socket_fallback.cc).
  void leave(int fd, Reason why);
  static constexpr std::uint64_t kLeaveNs = 200'000'000;     // for the peer to leave the lane
  static constexpr std::uint64_t kRecordNs = 2'000'000'000;  // before another program gets the socket
  // The same in two steps, for many sockets at once: until the deadline the peer may do it in good order,
  // then the lane is given up. begin_leaving() is nullptr if there is nothing to wait for.
  LaneEnd* begin_leaving(int fd, Reason why);
  void end_leaving(int fd, LaneEnd& end, std::uint64_t deadline);
  // Waits until what the peer has sent on a lane that it has lost has come.
  void await_record(int fd, std::uint64_t deadline);
  // Waits until the kernel has taken what it had to send on its own. -1: another thread sees to it.
  void await_kernel(int fd);
  // Sockets of the process of which the kernel has yet to take something.
  static unsigned count_kept() { return g_kept.load(); }
  static void forget_kept() { g_kept.store(0); }
  // The same for ever: no lane any more.
  void leave_for_good(int fd, Reason why);
  // The direction from here alone goes down; what was sent before arrives before what the kernel
  // sends next. Waits only for room in the window.
  void leave_sending(int fd, Reason why);
  // The sending direction may not use the lane from now on although it could.
  void forbid(Reason why);

  // The lane has broken: the streams go on through the kernel. Nothing is lost, if the peer lives.
  void fall_back(int fd);
  // What is left to be done for that, by the background thread, as POLLIN and POLLOUT; 0: nothing.
  short falling();
  void go_on_falling(int fd);
  bool has_fallen(LaneEnd& end);

  // shutdown(2).
  int shutdown(int fd, int how);

  // The last descriptor of the process is about to be closed: sends what is left, in the background
  // if the socket does not linger. Call between table::closing() and the kernel's close.
  void release(int fd);
  // A descriptor is about to be closed. Calls of other threads that wait at the socket go on, as the
  // kernel's do: if there are any, the socket keeps a descriptor for them, is released when the last
  // of them has ended, and this is true.
  bool keep_for_waiting(int fd);

  // ------------------------------------------------------------------ fork and exec
  // Before fork, lane left: unread data of the lane moves to memory that parent and child share, and
  // the socket counts one more process that holds it. Undone by fork_failed().
  void share(int fd);
  void fork_failed();
  // In the child, for every socket: no thread is inside any more.
  void after_fork_in_child();

  // Lane left. What is unread and comes before anything that the kernel has is the socket's own.
  void gather(int fd);
  // Another program or process is about to get the descriptor. Lane left. The file of what is unread
  // and comes before anything that the kernel has; -1: there is none.
  int bequeath(int fd);
  // This process has got it so: no lane, and `residue` is read first.
  void inherit(Residue* residue, Reason why);
  // The same, but what was unread has been lost.
  void inherit_loss(int fd);
  // This process does not hold it any more from now on: it ends, or another program takes over that
  // does not get it. More than once does no harm. Undone by stay().
  void depart();
  void stay();

  // A child that is spawned gets it, whether it closes on exec or not.
  void will_be_passed() { passed_.store(true); }
  bool passed() const { return passed_.load(); }

  // ------------------------------------------------------------------ events of the program
  void listens();       // so it has no data, and the kernel alone knows all about it
  // This process has just made it: what accept() takes over from a listener is to be looked up.
  void made(bool nonblocking, bool accepted);
  // setsockopt of what says when the kernel sends.
  int set_pushing(int fd, int name, const void* value, socklen_t length);
  void mode_changed();  // O_NONBLOCK, timeouts, TCP_NODELAY ...: look again
  // A time limit was set; `not_at_all`: calls are not to wait.
  void set_waits_not(bool receiving, bool not_at_all);
  void want_control(unsigned bit, bool on);
  // SO_SNDBUF: a send that waits looks again.
  void room_changed(int fd);
  int descriptors() const { return descriptors_.load(); }  // of this process

  // ------------------------------------------------------------------ for the background thread
  // The lane is open: sends may go up. False if the socket does not want it any more.
  bool lane_opened(LaneEnd& end);
  // The peer may begin with the lane from now on. `fd`: the descriptor that the lane was asked for by.
  void trust_lane(LaneEnd& end, int fd);
  // START may have come: whether what is to be read next is another one's to say since then.
  bool settle(LaneEnd& end);
  // No lane; how many calls later it is worth trying again is the socket's to say.
  void lane_refused(Reason why);
  // The lane is over; takes it from the socket, for good. False while there is something to read.
  bool lane_over(LaneEnd& end);
  // The program has closed it.
  bool closed() const { return descriptors() == 0 && waiters_fd_.load() < 0; }
  // When the process ends: FIN to the peer. Nobody calls any more.
  void finish_lane();
  // Which lane of this connection the next one is.
  std::uint32_t lane_number();

  SocketRef reference();

 private:
  friend class SocketPool;
  friend class SocketRef;

  // Where the bytes of a direction come from, or go to.
  enum class Phase : std::uint8_t {
    kKernel,  // the lane has not begun
    kDrain,   // receiving: it has; `kernel_left_` bytes come from the kernel before
    kLane,
    kAfter,   // the lane has ended: the kernel again
  };
  enum class Stage : std::uint8_t { kNone, kAsked, kOpen };
  enum class Attempt : std::uint8_t { kDone, kAgain, kFailed, kLook, kPipe, kBroken };

  Socket() = default;
  ~Socket() = default;

  friend class DirectReceive;
  // The lane, which stays until end_direct(); nullptr: not now.
  LaneEnd* begin_direct(std::byte* to, std::uint32_t bytes, std::uint32_t memory);
  void end_direct(LaneEnd& end);
  std::size_t last_packet() const { return last_packet_.load(std::memory_order_relaxed); }

  Attempt try_receive(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                      ssize_t& bytes);
  // A send from the program's own memory.
  struct Direct {
    std::uint32_t memory = 0;  // its region
    bool sent = false;
    std::uint64_t ticket = 0;  // of the last packet
  };
  Attempt try_send(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                   ssize_t& bytes, Direct* direct, bool looked);
  ssize_t send_pieces(int fd, const iovec* pieces, std::size_t count, int flags, Direct* direct);
  ssize_t send_registered(int fd, const iovec& piece, int flags);
  void await_sent(int fd, std::uint64_t ticket);
  // Whether what this thread waits for is the kernel's alone; receive_undisturbed() has to follow.
  bool begin_undisturbed(int flags);
  ssize_t receive_undisturbed(int fd, const iovec* pieces, std::size_t count, int flags);
  bool go_up(int fd);
  // Whoever looks at what is unread on the lane calls this before: if START has come meanwhile, it says
  // how much there is to read from the kernel first. In and the lane locked.
  void settle_receiving(Lane& lane);
  Attempt receive_from_kernel(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                              int flags, ssize_t& bytes);
  Attempt receive_residue(const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                          ssize_t& bytes);
  // A call that waits, perhaps several times.
  struct Waiting {
    Waiting() = default;
    ~Waiting() { end(); }
    void end() {
      if (counted != nullptr) counted->waited();
      counted = nullptr;
    }
    Waiting(const Waiting&) = delete;
    std::uint64_t deadline = 0;  // 0: not looked up yet
    bool has_deadline = false;
    Socket* counted = nullptr;  // it has waited at this one
  };
  // The descriptor of a call that was given `fd`.
  int current(int fd) const {
    const int kept = waiters_fd_.load(std::memory_order_relaxed);
    return kept < 0 ? fd : kept;
  }
  void waited();
  bool await(int fd, short events, int option, Waiting& waiting, DirectReceive& direct);
  bool blocks(int fd, int flags);
  void learn(std::uint32_t before, std::uint32_t mode);
  void set_receiving(Phase phase);
  void set_sending(Phase phase);
  bool awaits_lane_end();
  bool has_ended(int fd);
  bool is_coming_down();
  bool lane_end_has_come();
  bool must_wait_for_lane_end(const Lane& lane) const;
  bool await_moment(int fd, Waiting& waiting);
  void begin(int fd, int option, Waiting& waiting);
  void moved(int fd, ssize_t bytes);
  int look_up_combining(int fd);
  void reset(int fd);
  void fall_back_locked(int fd);
  void shut_if_due(int fd);
  bool await_arrival(Lane& lane, std::uint64_t ns);
  void await_moment_before_close();
  void keep_unsent(int fd, Lane& lane);
  bool flush_kept(int fd);
  bool take_record(int fd);
  // The next that is read is a record in the kernel's stream, or what comes before it has been read.
  bool record_is_next() const;
  void be_watched();
  void rest_with_kernel();
  void put_off_lane();
  bool record_would_reset(int fd);
  void unpin(LaneEnd& end);
  void gather_unread(int fd);
  // ECONNRESET for the first call that meets the reset, as with TCP; then `once_told`.
  Attempt fail_reset(Attempt once_told);

  std::atomic<std::uint32_t> references_{0};  // first: see SocketPool
  std::atomic<int> descriptors_{0};
  std::atomic<bool> lane_wanted_{true};
  std::atomic<void*> watchers_{nullptr};
  std::atomic<std::uint32_t> routes_{0};

  // --- receiving
  Lock in_;
  Phase receiving_ = Phase::kKernel;
  std::uint64_t kernel_left_ = 0;
  // What has been read from the kernel so far, as far as it is known. Counted here, as the kernel's
  // own figures leave urgent bytes out that have come since.
  std::uint64_t kernel_read_ = 0;
  bool read_known_ = false;
  bool read_shut_ = false;
  std::atomic<bool> quiet_{false};             // set with the lane locked
  std::atomic<std::size_t> lane_left_{0};      // unread on the lane: a hint
  std::atomic<std::uint32_t> last_packet_{0};  // bytes of the last one from the lane: a hint
  bool early_end_ = false;   // of the kernel's stream, before the lane's
  bool end_counts_ = false;  // ... which came before the peer could have begun with the lane
  // Calls of receive_undisturbed(); increased with in_ locked. A handler that left one by longjmp leaves
  // this behind: such a connection stays with the kernel.
  std::atomic<int> undisturbed_{0};

  // --- sending
  Lock out_;
  Phase sending_ = Phase::kKernel;
  bool forbidden_ = false, write_shut_ = false;
  std::atomic<bool> starved_{false};  // data that was sent waits for credits: a hint
  bool shut_later_ = false;  // in the kernel, when all that was sent before has arrived

  // --- both: read under either lock, changed under both
  LaneEnd* lane_ = nullptr;
  Stage stage_ = Stage::kNone;
  std::atomic<bool> reset_{false};
  std::atomic<bool> reset_told_{false};
  Holders* holders_ = nullptr;
  Residue* residue_ = nullptr;
  // What the kernel has yet to take of a lane that has broken.
  struct Kept {
    std::size_t bytes, at;
    std::byte data[1];
  };
  Kept* kept_ = nullptr;
  static constinit std::atomic<unsigned> g_kept;
  void drop_kept();
  std::atomic<bool> watched_{false};  // the background thread looks at what is yet to come
  bool fell_ = false;  // lane_ has broken, and all has been done about it that can be
  bool departed_ = false;
  std::atomic<bool> passed_{false};

  std::atomic<bool> for_good_{false};
  std::atomic<Reason> reason_{Reason::kShort};
  std::atomic<std::uint32_t> lane_number_{0};
  // What is known of O_NONBLOCK and of the time limits, so that the kernel need not be asked each time;
  // what was looked up before a change is not taken for what is after it.
  enum Mode : std::uint32_t {
    kBlocking = 1,
    kNonblocking = 2,
    kNoReceiveLimit = 4,
    kNoSendLimit = 8,
    kReceivesAtOnce = 16,  // set by the program, and kept
    kSendsAtOnce = 32,
    kModeVersion = 64,  // one of it
  };
  std::atomic<std::uint32_t> modes_{0};
  enum Combining : int { kNotKnown = -1, kAtOnce, kSmall, kCorked };
  std::atomic<int> combines_{kNotKnown};
  std::atomic<unsigned> control_wanted_{0};
  std::atomic<int> waiting_{0};          // calls that wait, or have waited
  std::atomic<int> sends_waiting_{0};    // threads
  std::atomic<int> waiters_fd_{-1};      // a descriptor of the library's for them; changed under both locks
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::uint32_t calls_needed_ = 0;  // 0: the option's
};

// A counted reference.
class SocketRef {
 public:
  SocketRef() = default;
  explicit SocketRef(Socket* counted) : socket_(counted) {}
  SocketRef(SocketRef&& other) noexcept : socket_(other.socket_) { other.socket_ = nullptr; }
  SocketRef& operator=(SocketRef&& other) noexcept;
  SocketRef(const SocketRef&) = delete;
  ~SocketRef() { reset(); }
  void reset();

  explicit operator bool() const { return socket_ != nullptr; }
  Socket* operator->() const { return socket_; }
  Socket& operator*() const { return *socket_; }
  Socket* get() const { return socket_; }

 private:
  Socket* socket_ = nullptr;
};

}  // namespace viaduct::sovia

#endif
