// An agent for tests of libvipl: one thread that serves a Unix socket and drives the segments of
// the sessions that it grants. Its wire is a loop: what a VI sends arrives at its own receive
// queue.
//
// It does as little as the client can tell, but by the rules of session_layout.h: it sleeps on
// agent wakes, clears doorbells, starves completion queues, writes status words last.
#ifndef VIADUCT_TESTS_UNIT_VIPL_FAKE_AGENT_H
#define VIADUCT_TESTS_UNIT_VIPL_FAKE_AGENT_H

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kagent/contract/control.h"
#include "kagent/contract/session_layout.h"

namespace viaduct::test {

class FakeAgent {
 public:
  struct Options {
    layout::Capacity capacity = {16, 8, 4096, 0};
    std::uint32_t busy_poll_us = 20;
    std::uint32_t inline_receive = layout::kMaxInlineRecv;  // longer ones are placed directly
    std::uint32_t cq_window = layout::kCqRingEntries;       // entries shown at once
    // Called on each hello answer before it is sent; may spoil it. Returns how many of the
    // descriptors to send.
    std::function<int(control::HelloAnswer&)> spoil;
    bool seal = true;
    std::uint32_t handle_step = 1;  // between memory handles
  };

  FakeAgent() : FakeAgent(Options()) {}
  // Listens on a socket of its own and points $VIADUCT_SOCKET there.
  explicit FakeAgent(Options options);
  ~FakeAgent();

  // Ends as a killed agent does: all sockets are closed at once.
  void die();

  // Between these, nothing is completed and no command is answered.
  void hold();
  void go_on();

  // Ends all sessions by the header's word, leaving the sockets open.
  void close_politely();

  // A request that the next ConnectWait returns.
  void offer(const layout::Address& from);

  // Takes a connected VI to the error state and flushes its queues, as a lost connection does.
  void fail_vi(std::uint32_t vi);

  // Reports an asynchronous error of the first session that is left; `vi` is the VI's index.
  struct Error {
    std::uint8_t resource, code, flags = 0;
    std::uint64_t descriptor = 0;
    std::uint32_t vi = 0;
  };
  void report(const Error& error);

  std::uint32_t error_events_taken();
  std::size_t commands_waiting();
  // Commands that were submitted and not looked at yet; while held.
  unsigned commands_submitted();
  unsigned alerts() const { return alerts_.load(); }
  unsigned sessions() const { return sessions_open_.load(); }
  unsigned agent_wakes() const { return agent_wakes_.load(); }
  unsigned poll_wakes() const { return poll_wakes_.load(); }
  unsigned receives_placed() const { return placed_.load(); }
  unsigned inline_sends() const { return inline_sends_.load(); }
  std::string last_device();
  layout::CommandBody last_command();

  // Slots of a session that its client holds: not free, not untouched. Call when it is quiet.
  std::uint32_t slots_in_use(std::size_t session = 0);

 private:
  struct Vi {
    std::uint32_t generation = 0;
    bool in_use = false;
    bool connected = false;
    bool error = false;
    std::uint32_t taken[2] = {0, 0};  // ring positions; [1] is the receive queue's
    std::uint32_t completed[2] = {0, 0};
    std::uint32_t cq[2] = {0, 0};       // 0 none, else 1 + index; [1] is the receive queue's
    std::deque<std::uint32_t> stalled;  // sends that wait for a receive
  };
  struct Cq {
    std::uint32_t generation = 0;
    bool in_use = false;
    std::uint32_t users = 0;
    std::uint32_t tail = 0;
    std::deque<std::array<std::uint32_t, 4>> backlog;  // vi, generation, sequence, receive
  };
  struct Waiting {
    std::uint32_t command;
    std::uint64_t deadline;
  };
  struct Session {
    int socket = -1;
    int agent_wake = -1;
    int poll_wake = -1;
    std::size_t bytes = 0;
    void* base = nullptr;
    layout::View view;
    std::vector<Vi> vis;
    std::vector<Cq> cqs;
    std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> regions;
    std::uint32_t next_handle = 1;
    std::uint32_t errors = 0;  // reported so far
    std::uint32_t discoveries = 0;
    std::vector<Waiting> waiting;
  };

  void run();
  bool accept_one();
  bool serve(Session& session);
  void grant(int socket);
  void drop(Session& session);
  void command(Session& session, std::uint32_t number);
  void finish(Session& session, std::uint32_t number, layout::CommandBody& body,
              std::uint32_t result);
  void work(Session& session, std::uint32_t vi);
  void flush(Session& session, std::uint32_t vi);
  bool next(Session& session, std::uint32_t vi, bool receive, std::uint32_t& slot);
  void transfer(Session& session, std::uint32_t vi, std::uint32_t from, std::uint32_t to);
  void complete(Session& session, std::uint32_t vi, bool receive, std::uint32_t slot,
                std::uint32_t status, std::uint32_t length, std::uint32_t immediate,
                std::uint32_t inline_length);
  void announce(Session& session, std::uint32_t cq);
  void wake(Session& session, std::atomic<std::uint32_t>& sleepers);
  void alert(Session& session);
  // Whether a command names the VI, or CQ, that is there now.
  bool names_vi(const Session& session, const layout::CommandBody& body) const;
  bool names_cq(const Session& session, const layout::CommandBody& body) const;
  bool covered(Session& session, const layout::Segment& segment) const;

  Options options_;
  std::string name_;
  int listener_ = -1;
  int stop_ = -1;
  std::mutex mutex_;  // guards what follows; the thread holds it while it works
  std::vector<std::unique_ptr<Session>> sessions_;
  std::deque<layout::Address> offers_;
  std::string last_device_;
  layout::CommandBody last_command_{};
  bool held_ = false;
  bool stopping_ = false;
  std::atomic<unsigned> sessions_open_{0};
  std::atomic<unsigned> agent_wakes_{0};
  std::atomic<unsigned> poll_wakes_{0};
  std::atomic<unsigned> alerts_{0};
  std::atomic<unsigned> placed_{0};
  std::atomic<unsigned> inline_sends_{0};
  std::thread thread_;
};

}  // namespace viaduct::test

#endif
