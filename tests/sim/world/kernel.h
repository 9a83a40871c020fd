// The kernel of the simulated world, as far as libvipl needs one: descriptors, memory to share,
// futexes, a clock. seam/vipl/process/sys.h has the library's side of it, this the world's.
//
// Calls that may wait let other fibers run meanwhile. So that more orders of events are seen than
// those, a fiber may also be stopped where it looks at the clock, and just before it sleeps: after its
// last look at what it waits for.
#ifndef VIADUCT_TESTS_SIM_WORLD_KERNEL_H
#define VIADUCT_TESTS_SIM_WORLD_KERNEL_H

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kagent/contract/control.h"
#include "tests/sim/world/fibers.h"
#include "tests/sim/world/plan.h"
#include "tests/sim/sim_port.h"
#include "xdp/descriptor.h"

namespace viaduct::sim {

// The name of the fibers that the library has started itself.
inline constexpr char kLibrarysOwn[] = "library";

// The object behind a descriptor.
struct File {
  virtual ~File() = default;
  virtual short ready() const { return 0; }  // POLL*
  const void* owner = nullptr;               // the program that has it
};

struct EventFile final : File {
  short ready() const override { return count != 0 ? short{POLLIN} : short{0}; }
  std::uint64_t count = 0;
  std::function<void()> rung;  // of an agent wake: its driver reads it
};

struct MemoryFile final : File {
  explicit MemoryFile(std::size_t size);
  ~MemoryFile() override;
  std::byte* base;
  std::size_t bytes;
};

struct PortFile final : File {
  PortFile(SimNetwork& its_network, SimPort& its_port) : network(its_network), port(its_port) {}
  short ready() const override { return !dead && port.waiting() != 0 ? short{POLLIN} : short{0}; }
  SimNetwork& network;
  SimPort& port;
  bool dead = false;  // nothing goes in or out, and what was lent is lost
};

// One end of the poll wake, with the agent's messages.
struct PollWakeFile final : File {
  short ready() const override {
    return static_cast<short>((messages != 0 ? POLLIN : 0) | (hung_up ? POLLIN | POLLHUP : 0));
  }
  unsigned messages = 0;
  bool hung_up = false;
};

// Rings to another program, as the agent hands them over: a file of the real system.
struct RingsFile final : File {
  explicit RingsFile(Descriptor its_file) : file(std::move(its_file)) {}
  Descriptor file;
};

// The control socket, from both ends.
struct SocketFile final : File {
  short ready() const override {
    const bool readable = answer.has_value() || !messages.empty();
    return static_cast<short>(readable ? POLLIN : hung_up ? POLLIN | POLLHUP | POLLRDHUP : 0);
  }
  unsigned host = 0;
  bool connected = false;
  std::optional<control::Hello> hello;  // asked, and not answered yet
  struct Answer {
    control::HelloAnswer text;
    std::vector<std::shared_ptr<File>> files;
  };
  std::optional<Answer> answer;  // not read yet
  struct Message {
    control::LocalPeer text;
    std::vector<std::shared_ptr<File>> files;
  };
  std::deque<Message> messages;  // of the agent, not read yet
  bool hung_up = false;          // by the agent, or with it
  bool shut = false;             // by the program
  std::uint64_t patience = 0;    // ns, for an answer; 0: for ever
};

// The world as the kernel sees it.
class Outside {
 public:
  virtual std::uint64_t now() const = 0;
  virtual Random& random_of(const void* owner) = 0;
  virtual bool may_run(const void* owner) = 0;
  // A program wants to speak with the agent of its host. False: there is none.
  virtual bool connects(const std::shared_ptr<SocketFile>& socket) = 0;
  // A stack in a program copies from or to the program's memory. False: that can't be done.
  virtual bool copies(void* to, const void* from, std::size_t bytes) = 0;
  // How likely it is that a fiber is stopped where it might be, and for how long at most.
  virtual double preemption() const = 0;

 protected:
  ~Outside() = default;
};

class Kernel {
 public:
  static Kernel& the();

  void begin(Outside& world);
  // All programs have ended; the agent monitor goes too.
  void end();
  Outside& outside() { return *outside_; }
  bool has_world() const { return outside_ != nullptr; }

  // The owner is that of the current fiber.
  int install(std::shared_ptr<File> file);
  void close(int fd);
  // As the end of its process: all that it has but what threads keep for those that come after them.
  void close_all(const void* owner);
  template <class T>
  std::shared_ptr<T> file(int fd) const {
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : std::dynamic_pointer_cast<T>(found->second);
  }
  bool is_ready(const pollfd& polled) const;

  void* map(std::size_t bytes, int fd);
  void unmap(void* at, std::size_t bytes);

  // The number of open files and maps, without those that threads keep.
  std::size_t files() const;
  std::size_t maps() const { return maps_.size() - kept_maps_; }

  bool run();
  std::uint64_t next() const;
  // Of a fiber: calls take time, so that a fiber that makes them again and again gives way at last.
  void take_time();
  // The same, and stops it now and then.
  void may_stop();
  // Of a fiber: sleeps on a word of its program's, or for a time. False: the time is up.
  bool wait(const void* word, std::uint64_t deadline);
  void sleep(std::uint64_t ns);

  Fibers fibers;

 private:
  struct Map {
    std::shared_ptr<MemoryFile> file;
    unsigned times;
  };
  Outside* outside_ = nullptr;
  int last_fd_ = 1000;
  std::map<int, std::shared_ptr<File>> files_;
  std::map<void*, Map> maps_;
  std::size_t kept_maps_ = 0;  // of a page each: threads' records
};

}  // namespace viaduct::sim

#endif
