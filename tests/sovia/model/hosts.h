// Hosts: the processes of programs at both ends, over kernel TCP or on SOVIA, and the controller's talk with them.
#ifndef SOVIA_MODEL_HOSTS_H
#define SOVIA_MODEL_HOSTS_H

#include <sys/types.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "call.h"
#include "program.h"

namespace model {

struct Place {
  std::string directory;       // of sockets
  std::string command[2];      // a process at each end: the words before the program's own
  std::string address;         // of end 1
  int port = 0;
  bool lanes = false;          // warm-ups wait for them
};

// A process can't be started, or has died by itself.
struct HostFails : std::runtime_error {
  using runtime_error::runtime_error;
};

class Hosts {
 public:
  explicit Hosts(Place place);
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  ~Hosts();

  // Starts the processes that do not live: 0 to 3, and the listener of process 1. True if 0 or 1 is a new one.
  bool start();
  void ask(int process, const Request& request);
  // The answer, if it comes in that time.
  std::optional<Reply> answer(int process, int patience_ms);
  Reply call(int process, const Request& request);
  // The child of a fork that has been asked for.
  void adopt(int child, int parent);
  void kill(int process);
  void release(int process);  // it has been told to exit
  void signal(int process, int number) const;

  bool lives(int process) const { return processes_[at(process)].control >= 0; }
  pid_t pid(int process) const { return processes_[at(process)].pid; }
  int lowest(int process) const { return processes_[at(process)].lowest; }
  int listener() const { return listener_fd_; }
  const Place& place() const { return place_; }

 private:
  struct Process {
    int control = -1;
    pid_t pid = 0, launched = 0;
    int lowest = 0;
  };
  static std::size_t at(int process) { return static_cast<std::size_t>(process); }
  void launch(int process);
  void accept_one();
  void forget(Process& process);

  Place place_;
  int control_ = -1;
  int listener_fd_ = -1;
  std::array<Process, kProcesses> processes_;
};

}  // namespace model

#endif
