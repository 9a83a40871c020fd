// A host of the simulated network: a port, a stack and any number of programs, in one thread.
//
// A SimProgram is to the stack what libvipl is: it fills in slots, rings doorbells and reads
// completions of a session's segment, but it never waits. Memory of programs is this process's.
#ifndef VIADUCT_TESTS_SIM_SIM_HOST_H
#define VIADUCT_TESTS_SIM_SIM_HOST_H

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kagent/contract/session_layout.h"
#include "kagent/stack/hosted_stack.h"
#include "tests/sim/sim_port.h"

namespace viaduct::sim {

StackLimits small_limits();

class Host;

struct Completion {
  std::uint32_t status = 0;
  std::uint32_t length = 0;
  std::uint32_t immediate = 0;
  std::uint64_t tag = 0;  // as given to post
};

// One program with one session.
class Program {
 public:
  explicit Program(Host& host);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Runs a control operation; done(result) is called from Host::step() when it has finished.
  using Done = std::function<void(const layout::CommandBody&)>;
  void command(const layout::CommandBody& body, Done done);
  // The same for operations that finish at once. The stack runs one round of progress.
  layout::CommandBody now(const layout::CommandBody& body);

  std::uint32_t register_memory(const void* address, std::size_t length, std::uint32_t ptag = 0,
                                bool rdma_write = false, bool rdma_read = false);
  std::uint32_t create_vi(std::uint16_t reliability, std::uint32_t send_cq = 0,
                          std::uint32_t receive_cq = 0, bool rdma_write = false,
                          bool rdma_read = false);

  void post_send(std::uint32_t vi, const void* data, std::uint32_t length, std::uint32_t handle,
                 std::uint64_t tag = 0, std::optional<std::uint32_t> immediate = {});
  void post_receive(std::uint32_t vi, void* data, std::uint32_t length, std::uint32_t handle,
                    std::uint64_t tag = 0);
  void post(std::uint32_t vi, bool receive, const std::vector<layout::Segment>& segments,
            std::uint32_t length, std::uint64_t tag, std::optional<std::uint32_t> immediate,
            const void* inline_data = nullptr, std::uint16_t op = layout::kOpSend, std::uint16_t flags = 0);
  // RDMA between `local` (ours) and [address, address + local.length) under the peer's handle.
  void post_rdma(std::uint32_t vi, layout::SlotOp op, const layout::Segment& local,
                 const void* address, std::uint32_t handle, std::uint64_t tag = 0,
                 std::optional<std::uint32_t> immediate = {});
  // The oldest posted descriptor if it has completed.
  std::optional<Completion> done(std::uint32_t vi, bool receive);
  std::uint32_t posted(std::uint32_t vi, bool receive) const;
  std::uint32_t state(std::uint32_t vi) const;

  // The next entry of a CQ: VI, receive queue?
  std::optional<std::pair<std::uint32_t, bool>> cq_entry(std::uint32_t cq);

  // Gives finished commands to their callers.
  void poll();

  // Where all its descriptors are said to lie, and the memory handle of that.
  const void* descriptor() const { return descriptor_; }
  std::uint32_t descriptor_handle() const { return descriptor_handle_; }

  const layout::View& view() const { return view_; }
  std::uint32_t session() const { return session_; }

 private:
  struct Queue {
    std::uint32_t posted = 0;
    std::uint32_t dequeued = 0;
    std::vector<std::pair<std::uint32_t, std::uint64_t>> slots;  // slot and tag by ring position
  };
  Queue& queue(std::uint32_t vi, bool receive);
  std::uint32_t take_slot();

  Host& host_;
  layout::View view_;
  void* segment_;
  std::size_t bytes_;
  std::uint32_t session_;
  std::map<std::pair<std::uint32_t, bool>, Queue> queues_;
  std::map<std::uint32_t, std::uint32_t> generations_;
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> cqs_;  // generation, consumed
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t fresh_slots_ = 0;
  std::map<std::uint32_t, Done> commands_;
  // Where inline data goes on completion.
  std::map<std::uint32_t, std::vector<layout::Segment>> targets_;
  std::byte descriptor_[1024];
  std::uint32_t descriptor_handle_ = 0;
};

// Sees, and may forbid, what stacks do to their surroundings.
class Watch {
 public:
  virtual ~Watch() = default;
  // False: it can't be done.
  virtual bool reads(Host& host, std::uint32_t session, std::span<const iovec> memory) = 0;
  virtual bool writes(Host& host, std::uint32_t session, std::span<const iovec> memory) = 0;
  // A piece has been written; the pieces behind it have not.
  virtual void wrote(Host& host, std::uint32_t session) = 0;
  virtual void wakes(Host& host, std::atomic<std::uint32_t>& word) = 0;
  virtual void poll_wakes(Host& host, std::uint32_t session) = 0;
  virtual void rings(Host& host) = 0;  // the driver, which may sleep
};

class Host : public Environment {
 public:
  Host(SimNetwork& network, std::uint8_t number, const StackLimits& limits,
       std::uint64_t seed, std::uint32_t mtu = 1500);
  ~Host() override;

  // Its stack sends and receives through `through`, which ends at `port`; null: directly.
  Host(SimNetwork& network, SimPort& port, std::unique_ptr<Port> through,
       const StackAddresses& addresses, const StackLimits& limits, const std::string& name,
       std::uint64_t seed);

  // To be asked before the stack's driver sleeps until the port has frames. False: something else has come.
  virtual bool prepare_to_sleep() { return true; }

  // One round of the stack and of the programs' command answers. True if there was work.
  bool step();
  std::uint64_t next_deadline() const { return stack->next_deadline(); }

  bool read_program(std::uint32_t, const Reader& reader, std::span<const iovec> remote,
                    std::span<const iovec> local) override;
  bool write_program(std::uint32_t, std::span<const iovec> remote,
                     std::span<const iovec> local) override;
  void wake(std::atomic<std::uint32_t>& word) override {
    if (watch != nullptr) watch->wakes(*this, word);
  }
  std::uint64_t random() override { return random_.next(); }
  std::optional<MacAddress> look_up(std::string_view name) override;
  void set_name(const std::string& name) { name_ = name; }
  bool is_own_name(std::string_view name) override { return name == name_; }
  std::string_view own_name() override { return name_; }
  Owns owns(std::uint32_t session, const Flow& flow) override {
    if (!knows_owners) return Owns::kUnknown;
    return owned.contains({session, flow.local_port}) ? Owns::kYes : Owns::kNo;
  }
  void poll_wake(std::uint32_t session) override {
    ++poll_wakes;
    if (watch != nullptr) watch->poll_wakes(*this, session);
  }

  // The memory of programs is always at hand.
  bool is_late(std::uint32_t program) override { return late_programs.contains(program); }
  bool is_full(std::uint32_t) override { return false; }
  void defer(const Late&) override { std::abort(); }
  bool await_read(const Late&) override { return false; }
  bool take_due(Late&, bool&) override { return false; }
  // Programs have no limits.
  bool charge(std::uint32_t, Quota, std::int64_t) override { return true; }
  // Of an agent and of granted stacks (granted_host.h); there are none here.
  std::optional<Connection> stopped(std::uint32_t, std::uint32_t, std::uint64_t) override { return std::nullopt; }
  void introduce(const MacAddress&, const MacAddress&) override {}
  std::uint32_t publish(const layout::Address&, bool) override { return layout::kNoListener; }
  void withdraw(std::uint32_t) override {}

  // As kill -9 of the stack's driver: it says goodbye to no peer, sessions are gone.
  void crash();
  // A new one on the same port.
  void restart(std::unique_ptr<Port> through);

  // The stack's.
  const void* segment() const { return segment_; }

 protected:
  Port* through() const { return through_.get(); }

 public:

  SimNetwork& network;
  SimPort& port;
  StackLimits limits;
  std::unique_ptr<Stack> stack;
  std::vector<Program*> programs;
  std::set<std::pair<std::uint32_t, std::uint16_t>> owned;  // TCP ports of programs, by session
  bool knows_owners = true;
  unsigned poll_wakes = 0;
  bool memory_gone = false;  // programs have unmapped what they had registered
  Watch* watch = nullptr;
  std::set<std::uint32_t> late_programs;  // whose memory is said to be slow to reach

 private:
  StackAddresses addresses_;
  std::unique_ptr<Port> through_;
  std::string name_;
  SimRandom random_;
  void* segment_;
  std::size_t bytes_;
};

// Runs hosts and `logic` (which returns whether it did something) until `finished` or until the
// virtual clock reaches `deadline`. False if the deadline came first.
bool run(SimNetwork& network, std::span<Host* const> hosts, const std::function<bool()>& logic,
         const std::function<bool()>& finished, std::uint64_t deadline);

// Connects a VI of each program: `server` waits, `client` asks. False if either failed.
bool connect(SimNetwork& network, std::span<Host* const> hosts, Program& client,
             std::uint32_t client_vi, Program& server, std::uint32_t server_vi,
             const MacAddress& server_address, std::uint32_t discriminator = 7);

}  // namespace viaduct::sim

#endif
