// Execution: one run of a program over kernel TCP or on SOVIA, each of whose answers the model looks at.
#ifndef SOVIA_MODEL_EXECUTE_H
#define SOVIA_MODEL_EXECUTE_H

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hosts.h"
#include "program.h"
#include "tcp_model.h"

namespace model {

// A row of the transcript. Rows of settled points are the same over TCP and on SOVIA.
struct Row {
  int operation = 0;
  bool settled = false;
  std::string text;
};

struct Outcome {
  std::string wrong;          // empty: all right
  int operation = -1;         // at which
  bool hosts_failed = false;
  unsigned operations = 0;    // that were not left out
  unsigned connections = 0, warm = 0, past_kernel = 0;
  unsigned higher_numbers = 0;  // new descriptors that were not the lowest free ones
  std::vector<Row> rows;
};

struct Limits {
  int patience_ms = 10'000;   // an answer that must come
  int warm_ms = 250;          // a lane comes in that time, or the program goes without
  std::uint32_t most_bytes = 1u << 20;  // of a send or a receive
  std::vector<bool> kept;     // operations that are not left out; empty: all
};

class Execution {
 public:
  Execution(const Program& program, Hosts& hosts, const Limits& limits)
      : program_(program), hosts_(hosts), limits_(limits) {}
  Outcome run();

 private:
  struct Wrong {
    std::string text;
  };
  struct Descriptor {
    int end = -1;  // connection * 2 + end; -1: none
    int fd = -1;
  };
  // A registration is the set's, the connection's and the descriptor's number's.
  struct Registration {
    int end = -1, fd = -1;
    std::uint32_t events = 0;
    bool armed = true;        // false: told once
    bool edge = false;        // an edge must be told
    std::uint64_t seen = 0;   // bytes that were known when it was told last
    bool seen_fin = false, seen_reset = false;
  };
  using EpollSet = std::vector<Registration>;
  struct Waiting {
    Operation operation;
    int index = 0;
    int end = -1;
    Receive receive;
    Send send;
    std::uint32_t seen = 0;  // what poll() may have found while it waited, and another process has taken since
  };
  struct Process {
    bool stopped = false;
    std::optional<Waiting> waiting;
    std::array<Descriptor, kSlots> slots;
    std::shared_ptr<EpollSet> set;
    int set_fd = -1;
  };

  // execute.cc: the course of a program
  void connect_all();
  void warm_up(int connection);
  void step(const Operation& operation);
  void perform(const Operation& operation);
  void collect();
  void finish();
  void end_waiting_calls();
  void drain(bool to_end);
  bool drain_end(int end, bool to_end);
  void close_all();
  void continue_all();

  // execute_calls.cc: operations
  void data(const Operation& operation, Descriptor descriptor);
  void begin(const Waiting& waiting, const Request& request, Ends ends);
  void complete(int process, const Reply& reply);
  void shutdown(const Operation& operation, Descriptor descriptor);
  void close_slot(int process, int slot, bool killed);
  void drop(Descriptor descriptor, bool killed);
  void copy(const Operation& operation, Descriptor descriptor);
  void fork(const Operation& operation);
  void leave(int process, bool killed);
  void pass(const Operation& operation, Descriptor descriptor);
  void option(const Operation& operation, Descriptor descriptor);
  void signal(const Operation& operation);
  void interrupt(int process);

  // execute_ready.cc: readiness and settled points
  void look(const Operation& operation, Descriptor descriptor);
  void check_mask(int end, std::uint32_t wanted, std::uint32_t got, const char* what);
  void epoll(const Operation& operation, Descriptor descriptor);
  void epoll_wait(int process);
  void told(Registration& registration, std::uint32_t events);
  void settle();
  void settle_end(int end);
  void edges(int end);
  bool somebody_is_stopped() const;

  Reply call(int process, const Request& request);
  void expect_success(const Reply& reply);
  void row(const Reply& reply);
  void must_be(bool right, const std::string& text);
  void check(const std::string& complaint);
  int lowest_fd(int process) const;
  void check_fd(int process, int fd);   // a new one
  int holder(int end) const;            // a process that may be asked about the end; -1: none
  bool is_receiving(int end) const;
  bool is_sending(int end) const;
  Connection& connection(int end) { return connections_[static_cast<std::size_t>(end / 2)]; }
  const Connection& connection(int end) const { return connections_[static_cast<std::size_t>(end / 2)]; }
  End& model_of(int end) { return connection(end).end(end % 2); }
  Process& process(int which) { return processes_[static_cast<std::size_t>(which)]; }
  const Process& process(int which) const { return processes_[static_cast<std::size_t>(which)]; }
  int fd_of(int which, int end) const;

  const Program& program_;
  Hosts& hosts_;
  const Limits& limits_;
  Outcome outcome_;
  std::array<Process, kProcesses> processes_;
  std::array<Connection, kConnections> connections_;
  std::array<std::uint64_t, kConnections * 2> kernel_before_{};
};

}  // namespace model

#endif
