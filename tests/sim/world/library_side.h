// One end of a connection that is made, used and ended again by plain calls of vipl.h, in a thread of
// its program, as programs of the time do it. Messages go both ways in batches: with the next one each
// side waits until it has all of the other's last one. So most waits need no timeout, and one that is
// not woken stands still for ever.
#ifndef VIADUCT_TESTS_SIM_WORLD_LIBRARY_SIDE_H
#define VIADUCT_TESTS_SIM_WORLD_LIBRARY_SIDE_H

#include <deque>
#include <initializer_list>
#include <vector>

#include "tests/sim/world/connection.h"
#include "tests/sim/world/library.h"

namespace viaduct::sim {

// How a side learns that descriptors have completed.
enum class LibraryManner {
  kPolls,       // VipRecvDone, VipSendDone
  kWaits,       // VipRecvWait, VipSendWait
  kThreads,     // the same, with a thread for receives
  kCqPolls,     // VipCQDone
  kCqWaits,     // VipCQWait
  kCqSleeps,    // VipxPoll
  kNotified,    // VipRecvNotify, VipSendNotify
  kCqNotified,  // VipCQNotify
  kCount
};

struct LibraryOptions {
  std::uint32_t job = 0;
  std::uint16_t level = vip::kReliableDelivery;
  bool peers = false;  // peer to peer; else client and server
  LibraryManner manners[2] = {};
  unsigned batches = 4;     // that each side must have got
  unsigned window = 8;      // messages of a batch at most
  std::uint32_t largest = 2000;
  bool rdma = false;
  double churn = 0;         // of the batches after which a side hangs up
  std::uint64_t pause = 0;  // ns between batches, on average
};

class LibraryJob;

class LibrarySide {
 public:
  LibrarySide(LibraryJob& job, LibraryProgram& program, unsigned side);

  // The thread's, from the NIC's opening until there is nothing to do, or it is closed.
  void run();
  void died();
  void nic_closed();
  // The connection is ended by this side.
  void note_end();

  bool finished() const;
  unsigned batches() const { return batches_; }
  std::string text() const;

 private:
  using Manner = LibraryManner;
  struct Item {
    VIP_DESCRIPTOR* descriptor;
    Buffer* buffer;
    std::uint32_t number = 0;  // of a message
    std::uint16_t op = 0;
    std::uint32_t from = 0;    // in the buffer
    bool crime = false;
    std::atomic<std::uint32_t> back{1};  // 0: the stack may use the buffer
  };
  using Queue = std::deque<Item*>;

  // --- library_side.cc: from one connection to the next
  bool check(VIP_RETURN got, const char* call, std::initializer_list<VIP_RETURN> allowed);
  bool equip();
  Item* new_item(std::uint32_t bytes);
  bool register_buffer(Buffer& buffer, std::uint32_t bytes, bool write, bool read);
  bool create();
  void destroy();
  bool connect();
  bool ask();
  bool wait_and_accept();
  bool meet();
  bool stands();
  void transfer();
  void end_connection();
  bool is_left() const;
  void clean_up();
  void nap(std::uint64_t least, std::uint64_t most);
  bool leaves() const;
  VIP_NET_ADDRESS* address(std::byte* room, const MacAddress& host, unsigned side,
                           const std::uint32_t* number) const;
  void ask_around();

  // --- library_exchange.cc: messages
  void offer(Item& item);
  void offer_all();
  bool batch();
  bool send();
  void read();
  void describe(Item& item, std::uint32_t length, const VIP_ADDRESS_SEGMENT* remote);
  void commit_crime();
  void post(bool receive, Item& item);
  bool take(bool receive, VIP_RETURN result, VIP_DESCRIPTOR* descriptor);
  bool take_next(bool receive);
  bool take_entry(VIP_RETURN result, VIP_VI_HANDLE vi, VIP_BOOLEAN receive);
  void take_message(const Item& item, const VIP_DESCRIPTOR& descriptor);
  bool get_some(bool patient);
  void think(unsigned& looks);
  bool wait_on_queue(bool receive, bool patient);
  bool sleep_until_told(bool patient);
  void drain();
  void be_the_receiver();
  void come_back(Item& item, bool receive);
  std::uint32_t batch_size(unsigned side, unsigned number) const;
  std::uint32_t size_of(std::uint64_t stream, std::uint64_t number) const;
  std::size_t place_of(std::uint32_t number) const;
  LibrarySide& other() const;
  bool empty() const { return queue_[0].empty() && queue_[1].empty(); }
  void told();
  void take_from_handler(bool receive, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d);
  static void on_receive(void* side, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d);
  static void on_send(void* side, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d);
  static void on_entry(void* context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_BOOLEAN receive);

  LibraryJob& job_;
  LibraryProgram& program_;
  const unsigned side_;
  const LibraryOptions& options_;
  const Manner manner_;

  // Of this life.
  bool equipped_ = false;
  std::deque<Item> items_;
  Buffer* descriptors_ = nullptr;
  std::size_t descriptors_used_ = 0;
  Buffer* narrow_ = nullptr;    // a region that ends before its buffer
  Buffer* target_ = nullptr;    // of RDMA writes: one place for each receive
  Buffer* constant_ = nullptr;  // of RDMA reads
  std::vector<Buffer*> buffers_;

  // Of this opening of the NIC.
  bool gone_ = false;  // the NIC can't be used any more
  VIP_PROTECTION_HANDLE tag_ = nullptr;
  VIP_CQ_HANDLE cq_ = nullptr;
  VIP_VI_HANDLE vi_ = nullptr;
  Queue queue_[2];  // posted: sends, receives
  std::vector<Item*> free_out_, free_in_;
  unsigned asked_ = 0, called_ = 0;  // handlers, for this VI
  unsigned asked_of_cq_ = 0;         // the same, for this CQ
  std::uint32_t events_ = 0, seen_ = 0;
  bool receiver_runs_ = false;
  unsigned posting_ = 0;  // threads

  // Of this connection.
  Connection* connection_ = nullptr;
  Connection* peers_ = nullptr;  // peer to peer: the number that the other side has for it
  std::uint64_t meets_until_ = 0;
  bool up_ = false, over_ = false;
  unsigned batch_ = 0;         // complete ones
  std::uint32_t sent_ = 0, got_ = 0, due_ = 0;

  unsigned batches_ = 0;  // on all connections
  unsigned churns_ = 10, crimes_ = 3;
};

}  // namespace viaduct::sim

#endif
