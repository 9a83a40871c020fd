// One end of a connection: a VI with what the two ends tell each other (wire.h). All functions are
// called with the NIC's mutex held, but for those that say otherwise.
//
//   requester   kIdle > kCalling > kAsked > kUp > kDown
//   acceptor    kGreeting > kRequested > kAnswering > kUp > kDown
//                                      > kRefusing > kDown
//
// Sends. What fits one VIA descriptor is posted at once if nothing is in front of it and the peer has a
// receive for it. All else is an Operation that is posted later: what waits for a receive of the peer's,
// and long transfers, piece by piece as earlier pieces complete. Operations keep their order. Reads
// that are not posted yet may be overtaken, unless the program asked for strict order. -FI_EAGAIN
// means that the endpoint has as many operations as it was made for.
#ifndef VIADUCT_VIPL_FABRIC_LINK_H
#define VIADUCT_VIPL_FABRIC_LINK_H

#include <sys/uio.h>

#include <array>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "vipl/fabric/completion_queue.h"
#include "vipl/fabric/credits.h"
#include "vipl/fabric/nic.h"
#include "vipl/fabric/pieces.h"
#include "vipl/fabric/regions.h"
#include "vipl/fabric/wire.h"

namespace viaduct::fabric {

class Link;

// Who uses a link: an endpoint, or the passive endpoint that it came to. Called with the NIC's mutex
// held.
class LinkUser {
 public:
  virtual void on_request(Link& link, const Greeting& greeting) = 0;
  virtual void on_accepted(const void* data, std::size_t bytes) = 0;
  // A connection that was asked for did not come about.
  virtual void on_refused(int error, const void* data, std::size_t bytes) = 0;
  virtual void on_established() = 0;
  virtual void on_ended(Link& link) = 0;
  // `wanted`: the program asked for a completion. Errors are told unless it is `silent`.
  virtual void on_sent(const Completion& completion, bool wanted, bool silent) = 0;
  virtual void on_received(const Completion& completion, bool wanted) = 0;

 protected:
  ~LinkUser() = default;
};

// What a program asks for.
struct Request {
  const iovec* ranges = nullptr;
  void* const* descs = nullptr;
  std::size_t count = 0;
  const fi_rma_iov* remote = nullptr;
  std::size_t remote_count = 0;
  void* context = nullptr;
  std::uint64_t data = 0;
  std::uint64_t flags = 0;  // FI_INJECT, FI_REMOTE_CQ_DATA, FI_FENCE
  bool wanted = true;       // a completion
  bool silent = false;      // nor an error: it has no context that could name it
};

inline constexpr std::uint32_t kQueueSize = 256;     // operations of an endpoint, if it does not say
inline constexpr std::uint32_t kMostQueueSize = 896; // VIPL's queues have 1024 places
inline constexpr std::uint32_t kInjectBytes = 256;

class Link {
 public:
  enum class State {
    kIdle, kCalling, kAsked, kGreeting, kRequested, kAnswering, kRefusing, kUp, kDown
  };

  // nullptr if there is no room. Not to be called with the mutex.
  static Link* make(Nic& nic, std::uint32_t transfer_bytes);
  // Ends the connection and the link. Not to be called with the mutex, nor by two threads. A link
  // that is being connected ends when that is over.
  static void destroy(Link* link);

  Nic& nic() { return *nic_; }
  VIP_VI_HANDLE vi() const { return vi_; }
  State state() const { return state_; }
  const sockaddr_in& peer() const { return peer_; }

  void set_user(LinkUser* user) { user_ = user; }
  void configure(Regions& regions, std::uint32_t sends, std::uint32_t receives, bool strict);

  // Connections. The listener prepares a link before it accepts with its VI.
  void expect_request();
  int connect(const sockaddr_in& self, const sockaddr_in& peer, const void* data, std::size_t bytes);
  int accept(const sockaddr_in& self, const void* data, std::size_t bytes);
  // The link has no user from then on, and ends by itself.
  int reject(const void* data, std::size_t bytes);
  void shut_down();

  // Transfers: 0, -FI_EAGAIN or another error.
  ssize_t send(const Request& request);
  ssize_t write(const Request& request);
  ssize_t read(const Request& request);
  ssize_t post_receive(const Request& request);
  std::size_t sends_left() const { return sends_ - std::min(begun(), sends_); }
  std::size_t receives_left() const {
    return receives_ - (credits_in_.posted() - credits_in_.consumed());
  }
  bool all_sent() const { return posted_ == done_ && operations_.empty(); }

  // What the NIC tells.
  void on_send_done();
  void on_receive_done();
  void on_lost();
  // A send waits for a promise: goes on if it has come.
  void feed();

 private:
  // What one descriptor does.
  struct Whole {
    Ranges local;              // unless the data was copied
    Range target;              // of an RDMA write
    bool writes = false;
    std::uint16_t control = 0;
    std::uint32_t data = 0;    // with VIP_CONTROL_IMMEDIATE
  };
  struct Operation {
    enum class Kind { kWhole, kWrite, kRead, kLarge };
    Kind kind;
    Whole whole;               // kWhole; kLarge: what is to be sent
    std::vector<unsigned char> copy;  // of data that the program may change already
    Pieces pieces;
    Completion completion;
    bool wanted;
    bool silent = false;
    bool takes_receive = false;  // and has none yet
    bool fence;
    bool notify;             // a Notice comes last
    Notice notice;
    std::uint32_t receive;   // that it takes at the peer's
    unsigned in_flight = 0;
    bool begun = false;
    bool posted = false;     // all of it
  };
  // A descriptor with room for its segments, and for data that is to be sent from here.
  struct alignas(64) SendSlot {
    VIP_DESCRIPTOR descriptor;
    VIP_DESCRIPTOR_SEGMENT more[4];
    unsigned char bytes[320];
  };
  struct alignas(64) ReceiveSlot {
    VIP_DESCRIPTOR descriptor;
    VIP_DESCRIPTOR_SEGMENT more[4];
  };
  static constexpr std::uint32_t kOwnSends = 64;  // besides the program's
  struct Private {
    SendSlot sends[kMostQueueSize + kOwnSends];
    ReceiveSlot receives[kMostQueueSize];
    ReceiveSlot greeting;
    Greeting greeting_bytes;
  };
  struct Sent {
    enum class Kind : unsigned char { kOwn, kPromise, kGreeting, kWhole, kPiece };
    Kind kind = Kind::kOwn;
    bool wanted = false;
    bool silent = false;
    Operation* operation = nullptr;
    Completion completion;
  };
  // Regions that the peer may write to while a long receive is posted.
  struct Landings {
    std::vector<Region*> regions;
    Landing landing{};
  };
  struct Posted {
    void* context = nullptr;
    void* buffer = nullptr;
    std::uint64_t length = 0;
    bool wanted = true;
    std::unique_ptr<Landings> landings;
  };

  Link(Nic& nic, std::uint32_t transfer_bytes);
  ~Link();
  bool set_up();

  void set_state(State state);
  void call();
  int call_once(std::uint32_t transfer_bytes, VIP_RETURN& code);
  bool post_greeting(Greeting::Kind kind, const void* data, std::size_t bytes);
  void on_greeting(VIP_DESCRIPTOR& descriptor);
  void on_request(const Greeting& greeting);
  void on_answer(const Greeting& greeting);
  void on_greeting_sent(int error);
  void learn(const Greeting& greeting);
  void end(int reason);
  void drain();

  // Sending
  std::uint32_t begun() const {
    return outstanding_ + static_cast<std::uint32_t>(operations_.size());
  }
  ssize_t admit(bool fence);
  void tell_room();
  bool has_credit();
  void starve();
  void attend();
  std::uint32_t slots() const { return sends_ + kOwnSends; }
  bool room() const { return posted_ - done_ < slots(); }
  SendSlot& next_slot(Sent*& sent);
  ssize_t post(SendSlot& slot, Sent& sent);
  ssize_t local_ranges(const Request& request, Ranges& ranges);
  static ssize_t remote_ranges(const Request& request, Ranges& ranges);
  void fill(SendSlot& slot, const Range* remote, const Ranges& local, std::uint16_t control);
  ssize_t transfer(const Request& request, Whole& whole, const Completion& completion,
                   bool takes_receive);
  ssize_t post_whole(const Whole& whole, const unsigned char* copy, std::size_t copied,
                     const Completion& completion, bool wanted, bool silent);
  ssize_t send_large(const Request& request, std::uint64_t bytes);
  void start(Operation&& operation);
  void pump();
  bool pump(Operation& operation);
  bool take_receive(Operation& operation);
  void find_landing(Operation& operation);
  bool post_piece(Operation& operation);
  bool post_notice(Operation& operation);
  void finish(Operation& operation);
  void remove(const Operation& operation);
  void fail_unposted();
  bool write_own(Sent::Kind kind, std::size_t offset, const void* bytes, std::size_t length);
  std::uint64_t peer_range(std::size_t offset) const { return peer_shared_ + offset; }

  // Receiving
  bool land(const Request& request, Posted& posted);
  void release(Posted& posted);
  std::uint32_t first_promise() const;
  void promise();
  void received(const Posted& posted, std::uint32_t number, const VIP_CONTROL_SEGMENT& control);

  static int error_of_status(VIP_UINT32 status);

  const std::shared_ptr<Nic> nic_;
  VIP_VI_HANDLE vi_ = nullptr;
  std::uint32_t transfer_bytes_;
  State state_ = State::kIdle;
  bool added_ = false;
  bool abandoned_ = false;  // to be destroyed by the worker
  LinkUser* user_ = nullptr;
  Regions* regions_ = nullptr;
  bool strict_ = false;

  Shared* shared_ = nullptr;
  Private* own_ = nullptr;
  VIP_MEM_HANDLE shared_memory_ = 0;
  VIP_MEM_HANDLE own_memory_ = 0;
  std::uint64_t peer_shared_ = 0;
  VIP_MEM_HANDLE peer_memory_ = 0;
  sockaddr_in self_{};
  sockaddr_in peer_{};
  std::vector<unsigned char> cm_data_;

  std::uint32_t sends_ = kQueueSize;
  std::uint32_t outstanding_ = 0;  // of the program's, in descriptors of their own
  std::uint32_t pieces_ = 0;       // of operations, in flight
  std::uint32_t reads_ = 0;        // those of reads
  std::uint32_t posted_ = 0;       // counts
  std::uint32_t done_ = 0;
  std::vector<Sent> sent_;
  std::list<Operation> operations_;
  std::deque<Operation*> waiting_;        // not all posted; writes and messages
  std::deque<Operation*> waiting_reads_;
  SendCredits credits_out_;
  bool starving_ = false;  // the first that waits has no receive
  bool unattended_ = false;  // has starved, and not sent all since
  bool refused_ = false;   // the program had to be told -FI_EAGAIN

  std::uint32_t receives_ = kQueueSize;
  std::vector<Posted> posted_receives_;
  ReceiveCredits credits_in_;
  bool promising_ = false;  // a promise is under way
};

}  // namespace viaduct::fabric

#endif
