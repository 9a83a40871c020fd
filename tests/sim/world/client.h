// A program's side of a session, as libvipl has it, with an oracle in it. It posts, harvests,
// sleeps and is woken; and whatever the stack does to a descriptor is held against VIA's promises:
//
//   - descriptors complete in the order of posting, each once, and are not touched after that;
//   - a completion queue tells each completion once, in order;
//   - a sleeper is woken when there is something to see.
//
// It looks at statuses in observe(), after every step, whether the program is awake or not.
#ifndef VIADUCT_TESTS_SIM_WORLD_CLIENT_H
#define VIADUCT_TESTS_SIM_WORLD_CLIENT_H

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/sim_host.h"
#include "tests/sim/world/memory.h"

namespace viaduct::sim {

class Client;

struct Done {
  std::uint32_t status;
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint64_t tag;
  Buffer* buffer;
  bool ok() const { return (status & vip::kErrorMask) == 0; }
};

// A descriptor to post.
struct Work {
  layout::SlotOp op = layout::kOpSend;
  Buffer* buffer = nullptr;  // null: no data
  std::uint32_t length = 0;
  std::uint32_t from = 0;  // in the buffer
  unsigned pieces = 1;     // segments that the data is cut into
  bool in_slot = false;    // small sends: copied at once
  std::optional<std::uint32_t> immediate;
  std::uint64_t tag = 0;
  std::uint64_t remote = 0;  // RDMA
  std::uint32_t remote_handle = 0;
  std::uint32_t beyond = 0;  // bytes that the last segment goes on behind the region
};

// A VI.
class Vi {
 public:
  Vi(Client& client, std::uint32_t index, std::uint32_t generation, std::uint16_t level,
     bool send_cq, bool receive_cq);

  void post(bool receive, const Work& work);
  // The oldest descriptor, if it has completed and the program has heard of it.
  std::optional<Done> done(bool receive);
  std::size_t posted(bool receive) const { return queue_[receive].posted.size(); }
  // Of these, those that have not completed.
  std::size_t incomplete(bool receive);
  std::uint32_t state() const;
  bool ready(bool receive) const;

  // Receives, or sends that use one, that have completed well so far; known before the program
  // harvests them.
  std::uint64_t succeeded(bool receive) const { return queue_[receive].succeeded; }

  // As VipxSetPatient.
  void set_patient(bool patient);

  void observe();
  std::atomic<std::uint32_t>& sleepers(bool receive) const;

  Client& client;
  const std::uint32_t index, generation;
  const std::uint16_t level;

 private:
  friend class Client;
  struct Posted {
    std::uint32_t slot;
    Work work;
    std::uint32_t status, length, immediate;  // as first seen
  };
  struct Queue {
    std::deque<Posted> posted;
    std::size_t seen = 0;         // of these, how many have completed
    std::uint32_t position = 0;   // posted since the VI was made
    std::uint32_t announced = 0;  // on the CQ, since the VI was made
    std::uint32_t taken = 0;      // by done(), since the VI was made
    std::uint64_t succeeded = 0;
    bool cq = false;
  };
  void observe(bool receive);

  Queue queue_[2];
};

// How a program waits.
enum class Manner { kSpins, kSleeps, kPolls, kIsCalled };

class Client {
 public:
  // `memory_gone()` afterwards: the process is dead, the agent does not know yet.
  Client(Host& host, Memory& memory, Manner manner, bool with_cq, bool& rang);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The session ends with the stack's knowledge, or has ended with the stack.
  void close();
  void lose() { open_ = false; }
  bool is_open() const { return open_; }

  using Answer = std::function<void(const layout::CommandBody&)>;
  void command(const layout::CommandBody& body, Answer answer);
  layout::CommandBody now(const layout::CommandBody& body);  // for those that finish at once

  bool register_buffer(Buffer& buffer, std::uint32_t length, bool remote_write = false,
                       bool remote_read = false);
  void deregister(Buffer& buffer);
  // Null when a table is full.
  Vi* create_vi(std::uint16_t level, std::uint32_t max_transfer, bool rdma);
  // Returns what was posted on it, if it has not been connected: that goes with it. Receive?
  std::vector<std::pair<bool, Done>> destroy_vi(Vi* vi);

  // Answers of commands and entries of the CQ. True if there were any.
  bool poll();
  // Asks to be woken. False: there is something to see.
  bool sleep();
  void woken() { asleep_ = false; }
  bool asleep() const { return asleep_; }
  bool is_word(const std::atomic<std::uint32_t>& word) const;

  void observe();
  // At the end: free slots as they were left.
  void check_slots() const;

  std::uint32_t session() const { return session_; }
  const layout::View& view() const { return view_; }
  void ring(std::uint32_t bit);

  Host& host;
  Memory& memory;
  bool memory_gone = false;

 private:
  friend class Vi;
  std::uint32_t take_slot();
  void give_slot(std::uint32_t slot);
  bool something_to_see() const;
  Vi* vi_of(std::uint32_t index, std::uint32_t generation);

  const Manner manner_;
  bool& rang_;
  bool open_ = true, asleep_ = false;
  layout::View view_;
  std::byte* segment_;
  std::size_t bytes_;
  std::uint32_t session_;
  Buffer* descriptors_;
  std::vector<std::unique_ptr<Vi>> vis_;
  std::deque<std::uint32_t> free_slots_;
  std::uint32_t fresh_slots_ = 0;
  std::optional<std::uint32_t> cq_;
  std::uint32_t cq_generation_ = 0, cq_taken_ = 0;
  struct Pending {
    std::uint32_t command;
    Answer answer;
  };
  std::vector<Pending> commands_;
};

}  // namespace viaduct::sim

#endif
