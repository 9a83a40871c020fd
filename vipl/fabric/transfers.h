// The sends, writes and reads of a link.
//
// A transfer that fits one VIA descriptor is posted at once if nothing is in front of it and the peer has
// a receive for it. All else is an Operation that is posted later: transfers that wait for a receive of the
// peer's, and long ones, piece by piece as earlier pieces complete. Operations keep their order. Reads
// that are not posted yet may be overtaken, unless the program asked for strict order. -FI_EAGAIN
// means that the endpoint has as many operations as it was made for.
//
// All functions are called with the NIC's mutex held.
#ifndef VIADUCT_VIPL_FABRIC_TRANSFERS_H
#define VIADUCT_VIPL_FABRIC_TRANSFERS_H

#include <deque>
#include <list>
#include <vector>

#include "vipl/fabric/credits.h"
#include "vipl/fabric/request.h"
#include "vipl/fabric/send_ring.h"

namespace viaduct::fabric {

// An operation that one descriptor carries out.
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
  Whole whole;               // kWhole; kLarge: the data to send
  std::vector<unsigned char> copy;  // data that the program may change already
  Pieces pieces;
  Completion completion;
  bool wanted;
  bool silent = false;
  bool takes_receive = false;  // it needs a receive and has none yet
  bool fence;
  bool notify;             // a Notice comes last
  Notice notice;
  std::uint32_t receive;   // the peer's receive that it takes
  unsigned in_flight = 0;
  bool begun = false;
  bool posted = false;     // all of it
};

class Transfers {
 public:
  // `link` is what the NIC calls when a promise of the peer's may have come.
  Transfers(LinkState& state, SendRing& ring, NicLink& link)
      : state_(state), ring_(ring), link_(link) {}

  void configure(std::uint32_t sends) { sends_ = sends; }
  // Takes the first promise of the peer.
  void grant(std::uint32_t total) { credits_.grant(total); }

  // 0, -FI_EAGAIN or another error.
  ssize_t send(const Request& request);
  ssize_t write(const Request& request);
  ssize_t read(const Request& request);
  std::size_t sends_left() const { return sends_ - std::min(begun(), sends_); }
  bool idle() const { return operations_.empty(); }

  // Whether the peer has promised more than it can have: then the connection must end.
  bool broken() const { return broken_; }

  // A descriptor of the transfers has completed.
  void on_sent(Sent& sent, int error, VIP_UINT32 status);
  // Posts what can be posted after a completion.
  void go_on();
  // The first operation that waits has no receive: goes on if one has been promised.
  void feed();
  // The connection has ended.
  void fail_unposted();
  // Takes the link off the NIC's lists.
  void leave_nic();

 private:
  std::uint32_t begun() const {
    return outstanding_ + static_cast<std::uint32_t>(operations_.size());
  }
  ssize_t admit(bool fence);
  void tell_room();
  bool has_credit();
  void starve();
  void end_backlog();
  ssize_t local_ranges(const Request& request, Ranges& ranges);
  static ssize_t remote_ranges(const Request& request, Ranges& ranges);
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

  LinkState& state_;
  SendRing& ring_;
  NicLink& link_;
  std::uint32_t sends_ = kQueueSize;
  std::uint32_t outstanding_ = 0;  // descriptors in flight of operations that have one of their own
  std::uint32_t pieces_ = 0;       // descriptors in flight of operations in pieces
  std::uint32_t reads_ = 0;        // how many of these belong to reads
  std::list<Operation> operations_;
  std::deque<Operation*> waiting_;        // writes and messages that are not all posted
  std::deque<Operation*> waiting_reads_;
  SendCredits credits_;
  bool broken_ = false;
  bool starving_ = false;    // the first operation that waits has no receive
  bool backlogged_ = false;  // has starved, and not sent everything since
  bool refused_ = false;     // the program had to be told -FI_EAGAIN
};

}  // namespace viaduct::fabric

#endif
