// A simulated network: any number of hosts in one process, a virtual clock, one seeded random
// source. The same seed, options and calls give the same run, on every machine.
//
//   SimPort --flush--> link to the switch --> switch --> queue of the receiver's link --> SimPort
//                      (rate, tx buffers)     (faults,   (rate, queue_frames)    (receive queue)
//                                              latency)
//
// Each host hangs on one switch by one full-duplex link. The switch knows every address and learns
// none: unicast goes to the host with that address, group addresses to all but the sender. A frame
// to the sender's own address or to an unknown one is dropped, as real switches do with the former.
//
// Time only moves in advance_to(). A test's loop is: let every stack work until none has anything
// to do, then advance_to(the smaller of next_event() and the stacks' next deadline). Times are
// nanoseconds. One thread; nothing here makes a system call.
//
// A borrower that breaks the rules of port.h (gives a buffer back twice, or one it was not lent,
// submits a length that does not fit) ends the process with a message. Buffers that are given back
// are filled with 0xdd, and AddressSanitizer reports every access outside of what is lent.
#ifndef VIADUCT_TESTS_SIM_SIM_PORT_H
#define VIADUCT_TESTS_SIM_SIM_PORT_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "xdp/bulk_path.h"
#include "xdp/port.h"

namespace viaduct {

class SimCapture;
class SimNetwork;

// xoshiro256**, seeded through splitmix64. Not std::mt19937 with distributions: those differ
// between standard libraries.
class SimRandom {
 public:
  explicit SimRandom(std::uint64_t seed);
  std::uint64_t next();
  std::uint64_t below(std::uint64_t n);  // uniform in [0, n); n > 0

 private:
  std::uint64_t state_[4];
};

// Faults of frames between the sender's link and the receiver's. Each is drawn for each frame and receiver on its own;
// fractions are in [0, 1].
struct SimFaults {
  double loss = 0;         // of the first copy
  double duplication = 0;  // a second copy follows, up to reorder_ns later
  double reordering = 0;   // 1 to reorder_ns more delay, and later frames may overtake
  double corruption = 0;   // flips corrupt_bits bits of the frame
  std::uint64_t jitter_ns = 0;  // extra delay, uniform in [0, jitter_ns]; keeps the order
  std::uint64_t reorder_ns = 100'000;
  std::uint32_t corrupt_bits = 1;
  // Bits are flipped in bytes [corrupt_from, corrupt_to) of the frame, Ethernet header included,
  // so far as it has them.
  std::uint32_t corrupt_from = 0;
  std::uint32_t corrupt_to = 0xffffffff;
};

struct SimOptions {
  std::uint64_t latency_ns = 5'000;
  std::uint64_t bits_per_second = 0;     // of every link; 0: no limit, and no queue in the switch
  std::uint32_t queue_frames = 256;      // in the switch, for each receiver
  std::uint32_t receive_frames = 2048;   // buffers of each host to receive into
  std::uint32_t receive_queue = 1024;    // of these, how many may wait for receive()
  std::uint32_t transmit_frames = 1024;  // buffers of each host to send from
  std::uint32_t lendable = 1024;         // told by Port::lendable()
  std::uint64_t start_ns = 1'000'000'000;  // now() of a new network
  SimFaults faults{};
  // Trains: a path of their own, each frame of one with its own fate, in order but for `reordering`.
  bool trains = false;
  bool pieces = true;  // trains take segments that lie in pieces
  // As real ports: receive() hands out express frames first, and a few frames by train behind them only if trains are known to
  // have come, or there is nothing else.
  bool express_first = false;
  std::uint64_t train_latency_ns = 5'000;
  SimFaults train_faults{};
  // Ports with the same last byte of their addresses are of one host: between them no bit flips.
  bool hosts_by_last_byte = false;
};

// Without group addresses, and when nothing is under way,
//   sent + duplicated + injected = delivered + the sum of all lost_*
// and a frame to a group address counts as one sent and as one for each receiver on the right.
struct SimCounters {
  std::uint64_t sent = 0;
  std::uint64_t injected = 0;
  std::uint64_t delivered = 0;   // put in a receive queue
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t by_train = 0;         // of those sent
  std::uint64_t lost_fault = 0;       // SimFaults::loss
  std::uint64_t lost_filter = 0;      // set_filter() said so
  std::uint64_t lost_cut = 0;         // cut(), or a dead host at either end
  std::uint64_t lost_no_host = 0;     // no host has the destination address
  std::uint64_t lost_queue_full = 0;  // the switch's queue
  std::uint64_t lost_receive = 0;     // receive queue or buffers full
  std::uint64_t lost_too_long = 0;    // more than the receiver's MTU
  std::uint64_t lost_stranger = 0;    // came by train, of a peer or a type that may not
};

// The buffers of one direction of a port, and the holder of each.
class SimBuffers {
 public:
  enum class Owner : std::uint8_t { kPort, kBorrower };

  // `what` names the direction in messages.
  SimBuffers(const char* what, std::uint32_t count, std::uint32_t bytes);
  ~SimBuffers();
  SimBuffers(const SimBuffers&) = delete;
  SimBuffers& operator=(const SimBuffers&) = delete;

  std::uint32_t available() const { return static_cast<std::uint32_t>(free_.size()) + fresh(); }
  std::uint32_t bytes() const { return bytes_; }
  std::uint32_t lent() const { return lent_; }
  std::byte* data(std::uint32_t id) const { return memory_.get() + std::size_t{id} * stride_; }

  std::uint32_t take();                                  // available() > 0; stays with the port
  void lend(std::uint32_t id, std::uint32_t length);     // to the borrower; it may use `length`
  std::span<std::byte> open(std::uint32_t id, std::uint32_t length);  // for the port itself
  void take_back(const Frame& frame, const char* call);  // ends the process if it was not lent
  void give(std::uint32_t id, std::uint32_t used);       // free again; the used bytes are poisoned
  void take_back_all();                                  // whatever is lent is free again
  void poison(std::uint32_t id, std::uint32_t used);

 private:
  std::uint32_t fresh() const { return count_ - used_; }

  const char* what_;
  std::uint32_t count_;
  std::uint32_t bytes_;
  std::size_t stride_;
  std::uint32_t used_ = 0;  // buffers that were ever taken
  std::uint32_t lent_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Owner> owner_;
  std::vector<std::uint32_t> free_;
};

// One host's port. Made by SimNetwork::add_host() and owned by the network.
class SimPort final : public Port, public BulkPath {
 public:
  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override;
  void submit(std::span<const Frame> frames) override;
  void submit_bulk(std::span<const Frame> frames, Prepare prepare) override;
  bool takes_pieces_of(std::uint32_t) const override;
  bool submit_pieces(std::span<const std::byte> head, std::span<const iovec> pieces) override;
  void cancel(std::span<const Frame> frames) override;
  void flush() override;
  std::uint32_t mtu() const override { return mtu_; }
  std::uint32_t payload_limit(const MacAddress& to) const override {
    return has_train(to) ? train_payload_limit() : mtu_;
  }
  TrainAddress train_address() const override;
  bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned) override {
    return at.any() && train_address().any() && (trains_from_.insert(peer), trains_to_.insert(peer), true);
  }
  void leave_train(const MacAddress& peer) override { trains_to_.erase(peer); }
  bool came_by_train(const Frame& frame) const override {
    return frame.id < came_by_train_.size() && came_by_train_[frame.id] != 0;
  }
  void trains_came() override { trains_came_ = true; }
  bool has_train(const MacAddress& peer) const { return trains_to_.contains(peer); }
  std::uint32_t train_payload_limit() const { return mtu_ - kAroundTrainFrame; }
  bool reserve_for(const MacAddress&, std::uint32_t, Frame&) override { return false; }
  BulkPath& bulk_path() override { return *this; }
  bool reaches(const MacAddress&) const override { return true; }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override;
  std::uint32_t backlog() const override;
  int descriptor() const override { return -1; }
  std::string mode() const override { return "sim"; }
  PortCounters counters() override { return counters_; }
  bool alive() const override { return alive_; }

  // Frames that wait for receive().
  std::size_t waiting() const { return received_.size(); }

  // Buffers that the borrower has and must still give back: received, reserved, both.
  std::uint32_t lent() const { return receive_.lent(); }
  std::uint32_t reserved() const { return transmit_.lent(); }
  std::uint32_t outstanding() const { return lent() + reserved(); }

  // Frames sent by train.
  std::uint64_t by_train() const { return by_train_; }

 private:
  friend class SimNetwork;
  static constexpr std::uint32_t kAroundTrainFrame = 62;
  struct Queued {
    std::uint32_t id;
    std::uint32_t length;
    bool by_train = false;
  };
  struct Sending {
    std::uint32_t id;
    std::uint64_t until;  // the last bit has left
  };

  SimPort(SimNetwork& network, std::uint32_t host, const MacAddress& address, std::uint32_t mtu);
  void reclaim();
  bool deliver(std::span<const std::byte> frame, bool by_train);
  std::size_t put_express_first();
  // As the kernel and a train socket: only peers that were learnt may send trains, of these types.
  bool takes_train(std::span<const std::byte> frame) const;

  SimNetwork& network_;
  std::uint32_t host_;
  MacAddress address_;
  std::uint32_t mtu_;
  bool alive_ = true;
  bool paused_ = false;
  bool starved_ = false;   // the last reserve() gave too few
  bool wake_due_ = false;  // an event is under way for that
  SimBuffers receive_;
  SimBuffers transmit_;
  std::deque<Queued> received_;
  std::vector<Queued> submitted_;  // not flushed yet
  std::deque<Sending> sending_;
  std::uint64_t link_free_ = 0;    // when the link to the switch has sent all it has
  std::uint64_t queue_free_ = 0;   // the same of the switch's queue towards this host
  std::uint32_t queue_used_ = 0;
  std::set<MacAddress> trains_to_, trains_from_;
  std::vector<std::uint8_t> came_by_train_;  // by the buffer's id
  bool trains_came_ = false;
  std::uint64_t by_train_ = 0;
  PortCounters counters_;
};

class SimNetwork {
 public:
  static constexpr std::uint64_t kNever = ~0ull;

  SimNetwork(const SimOptions& options, std::uint64_t seed);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // The reference holds as long as the network. No two hosts may have the same address.
  SimPort& add_host(const MacAddress& address, std::uint32_t mtu);

  std::uint64_t now() const { return now_; }

  // When something will next happen; kNever if nothing is under way.
  std::uint64_t next_event() const { return events_.empty() ? kNever : events_.front().time; }

  // Lets everything happen that is due up to and including `time`, in order of time and, within the
  // same time, of cause. A time in the past is taken as now.
  void advance_to(std::uint64_t time);

  // For what is sent from now on.
  void set_faults(const SimFaults& faults);
  void set_train_faults(const SimFaults& faults);

  // Nothing from `from` arrives at `to`, neither what is sent now nor what is under way.
  void cut(const SimPort& from, const SimPort& to) { set_cut(from, to, true); }
  void mend(const SimPort& from, const SimPort& to) { set_cut(from, to, false); }
  // The same in both directions.
  void part(const SimPort& a, const SimPort& b) { cut(a, b), cut(b, a); }
  void join(const SimPort& a, const SimPort& b) { mend(a, b), mend(b, a); }
  void mend_all();

  // A paused host is like one whose processor is busy elsewhere: it receives and sends nothing, but
  // frames go on arriving in its receive queue, and are dropped when that is full.
  void pause(SimPort& port) { port.paused_ = true; }
  void resume(SimPort& port);

  // The interface is gone: alive() is false, nothing goes in or out, for good.
  void kill(SimPort& port) { port.alive_ = false; }

  // Its borrower has died and another one opens the port: lent buffers are the port's again, and frames that waited to
  // be received or sent are gone.
  void reopen(SimPort& port);

  // Called for each frame that is sent, before faults. May change the frame (not its length);
  // returns false to lose it. It must not call the network.
  using Filter = std::function<bool(const SimPort& from, std::span<std::byte> frame)>;
  void set_filter(Filter filter) { filter_ = std::move(filter); }

  // Puts a forged frame in `to`'s receive queue, now; `by_train`: as one of a train. False if it did not fit, or no train may
  // bring it.
  bool inject(SimPort& to, std::span<const std::byte> frame, bool by_train = false);

  const SimCounters& counters() const { return counters_; }

  // Of everything that arrived or was lost so far: when, between whom, length and first 64 bytes.
  std::uint64_t trace_hash() const { return hash_; }

 private:
  friend class SimPort;
  enum class What : std::uint8_t { kAtSwitch, kAtHost, kWake };

  struct Event {
    std::uint64_t time;
    std::uint64_t sequence;
    std::uint32_t packet;
    std::uint16_t from;
    std::uint16_t to;
    What what;
    bool by_train;

    bool operator<(const Event& other) const {  // a heap has its greatest in front
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };

  struct Packet {
    std::vector<std::byte> bytes;
    std::uint32_t users;
  };

  // Faults with fractions as thresholds of a 64-bit draw.
  struct Odds {
    std::uint64_t loss, duplication, reordering, corruption;
  };

  void transmit(SimPort& from, std::span<const std::byte> frame, bool by_train);
  void send_copies(const SimPort& from, SimPort& to, std::uint32_t packet, std::uint64_t left,
                   bool by_train);
  void travel(const SimPort& from, const SimPort& to, std::uint32_t packet, std::uint64_t arrival,
              bool by_train);
  static Odds odds_of(const SimFaults& faults);
  void handle(const Event& event);
  void wake_when_sent(SimPort& port);
  bool happens(std::uint64_t threshold);
  void push(std::uint64_t time, What what, std::uint32_t packet, std::uint32_t from,
            std::uint32_t to, bool by_train = false);
  std::uint64_t link_time(std::size_t bytes) const;
  void set_cut(const SimPort& from, const SimPort& to, bool cut);
  bool severed(const SimPort& from, const SimPort& to) const;
  std::size_t pair(const SimPort& from, const SimPort& to) const;
  std::uint32_t new_packet(std::span<const std::byte> bytes);
  void drop_packet(std::uint32_t packet);
  std::uint32_t corrupted_copy(std::uint32_t packet, const SimFaults& faults);
  void lose(std::uint64_t& counter, std::uint32_t from, std::uint32_t to,
            std::span<const std::byte> frame);
  void note(std::uint32_t fate, std::uint32_t from, std::uint32_t to,
            std::span<const std::byte> frame);

  SimOptions options_;
  Odds odds_{}, train_odds_{};
  SimRandom random_;
  std::uint64_t now_;
  std::uint64_t sequence_ = 0;
  std::uint64_t hash_ = 0;
  std::vector<Event> events_;  // a heap
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> free_packets_;
  std::vector<std::unique_ptr<SimPort>> hosts_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_address_;
  std::vector<std::uint8_t> cut_;             // for each pair, senders pair_stride_ apart
  std::vector<std::uint64_t> last_arrival_;   // the same; keeps the order of a pair's frames
  std::vector<std::uint64_t> last_train_;     // the same for trains
  std::size_t pair_stride_ = 0;
  Filter filter_;
  SimCounters counters_;
  std::unique_ptr<SimCapture> capture_;  // nullptr: not wanted
};

}  // namespace viaduct

#endif
