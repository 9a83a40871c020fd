// A session server without interfaces, and programs that talk to it: for tests and fuzzing. All in
// one thread: a program says something, the server's loop is run, the program reads the answer.
#ifndef VIADUCT_TESTS_UNIT_AGENT_AGENT_FIXTURE_H
#define VIADUCT_TESTS_UNIT_AGENT_AGENT_FIXTURE_H

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kagent/contract/control.h"
#include "kagent/agent/nic/granter.h"
#include "kagent/agent/programs/granted_segment.h"
#include "kagent/agent/service/session_server.h"
#include "kagent/contract/wire.h"
#include "tests/unit/agent/counter_tally.h"
#include "xdp/bulk_path.h"
#include "xdp/port_error.h"

namespace viaduct {

// A port that nothing ever comes from and that has no room to send.
class SilentPort : public Port {
 public:
  explicit SilentPort(std::uint8_t number) : number_(number) {}
  std::size_t receive(std::span<Frame>) override { return 0; }
  void release(std::span<const Frame>) override {}
  std::size_t reserve(std::span<Frame>) override { return 0; }
  void submit(std::span<const Frame>) override {}
  void cancel(std::span<const Frame>) override {}
  void flush() override {}
  std::uint32_t mtu() const override { return 1500; }
  MacAddress address() const override { return {2, 0, 0, 0, 0, number_}; }
  std::uint32_t lendable() const override { return 16; }
  std::uint32_t backlog() const override { return lendable(); }
  int descriptor() const override { return -1; }
  std::string mode() const override { return "silent"; }
  PortCounters counters() override { return {}; }
  bool alive() const override { return true; }
  bool reaches(const MacAddress&) const override { return true; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  std::uint8_t number_;
  NoBulkPath no_bulk_path_{*this};
};

// Grants ports that are none: a socket without a listener and some memory.
class TestGranter final : public Granter {
 public:
  struct Log {
    std::string why;  // no port can be made
    std::mutex making;  // while held, making a port waits
    std::mutex ending;  // while held, taking a port down waits
    bool kept = false;  // a program holds copies of all sockets
    unsigned made = 0, gone = 0, admitted = 0, dismissed = 0, left = 0;
    std::vector<std::pair<MacAddress, AgentPort::Holder>> remains;  // of an earlier agent
    std::vector<std::vector<std::byte>> sent;
    GrantedCounters counters;
  };
  explicit TestGranter(Log& log) : log_(log) {}

  std::unique_ptr<AgentPort> make(std::uint32_t umem_bytes) override {
    const std::lock_guard lock(log_.making);
    if (!log_.why.empty()) throw PortError(log_.why);
    return std::make_unique<Place>(log_, umem_bytes);
  }
  std::vector<std::unique_ptr<AgentPort>> take_left() override {
    std::vector<std::unique_ptr<AgentPort>> out;
    for (const auto& [address, holder] : log_.remains) {
      out.push_back(std::make_unique<Place>(log_, address, holder));
    }
    log_.remains.clear();
    return out;
  }
  void admit(AgentPort&) override { ++log_.admitted; }
  void dismiss(AgentPort&) override { ++log_.dismissed; }
  MacAddress control_session() const override { return {2, 'd', 'e', 's', 'k', 0}; }

 private:
  class Place final : public AgentPort {
   public:
    Place(Log& log, std::uint32_t umem_bytes)
        : log_(log), socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
          umem_(make_sealed_memory("umem", umem_bytes)) {
      layout_.address = {2, 'p', 'o', 'r', 't', static_cast<std::uint8_t>(++log_.made)};
      layout_.ether_type = wire::kDefaultEtherType;
      layout_.mtu = 1400;
      layout_.chunk = 2048;
      layout_.receive = umem_bytes / 2048 / 2;
      layout_.send = layout_.receive;
      layout_.ring = 64;
    }
    Place(Log& log, const MacAddress& address, const Holder& holder) : log_(log), holder_(holder) {
      ++log_.made;
      layout_.address = address;
      layout_.ether_type = wire::kDefaultEtherType;
    }
    const GrantedLayout& layout() const override { return layout_; }
    void set_holder(const Holder& holder) override { holder_ = holder; }
    Holder holder() const override { return holder_; }
    void take_umem(int umem) override { umem_ = Descriptor(umem); }
    void leave() override {
      ++log_.gone, ++log_.left;
      log_.remains.emplace_back(layout_.address, holder_);
    }
    int socket() const override { return socket_.get(); }
    int umem() const override { return umem_.get(); }
    // It has no trains.
    int train_socket() const override { return -1; }
    int train_guard() const override { return -1; }
    TrainAddress train_address() const override { return {}; }
    bool send(std::span<const std::byte> frame) override {
      log_.sent.emplace_back(frame.begin(), frame.end());
      return true;
    }
    GrantedCounters counters() override { return log_.counters; }
    void end() override {
      const std::lock_guard lock(log_.ending);
      ++log_.gone;
    }
    bool is_kept() override { return log_.kept; }

   private:
    Log& log_;
    Descriptor socket_, umem_;
    GrantedLayout layout_{};
    Holder holder_;
  };

  Log& log_;
};

// A server for interfaces "via0" and "via1", under a socket name of its own. Ports can be granted
// on the first one.
class TestAgent {
 public:
  explicit TestAgent(Config config = small_config()) : config_(std::move(config)) {
    for (std::size_t i = 0; i < config_.nics.size(); ++i) {
      nics.push_back(std::make_unique<AgentNic>(
          config_.nics[i], config_,
          [i] { return std::make_unique<SilentPort>(static_cast<std::uint8_t>(i + 1)); },
          [] { return std::vector<std::string>(); },
          [this, i](HostPort&) -> std::unique_ptr<Granter> {
            if (i != 0) throw PortError("no ports on the second one");
            return std::make_unique<TestGranter>(ports);
          }));
      nics.back()->open(monotonic_ns());
    }
    server = std::make_unique<SessionServer>(config_, loop, nics, counters, local_paths,
                                             [] { return std::string("the table\n"); });
  }
  // The server does not wait for its users' threads. Those that have yet to end have descriptors, which the next
  // test would count.
  ~TestAgent() {
    server.reset();
    add_to_tally(counters);
    constexpr unsigned kMostLooks = 2000;  // one may hang
    for (unsigned n = 0; threads() > threads_before_ && n < kMostLooks; ++n) usleep(1000);
  }

  static Config small_config() {
    static int count = 0;
    Config config;
    config.socket = "@viaduct-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    config.name = "here";
    for (const char* name : {"via0", "via1"}) {
      NicConfig nic;
      nic.interface = name;
      config.nics.push_back(nic);
    }
    config.granted.ready_ports = 0;  // tests count ports
    config.limits.sessions = 8;
    config.limits.vis = 64;
    config.limits.cqs = 8;
    config.limits.regions = 256;
    config.limits.ptags = 16;
    config.limits.slots = 1024;
    config.limits.peers = config.limits.requests = config.limits.goodbyes = 16;
    config.limits.held = 16;
    return config;
  }

  // Lets the server do all that it has to do, and the stacks with it.
  void run() {
    while (loop.poll(0) != 0 || !server->idle()) continue;
    for (const auto& nic : nics) {
      if (nic->is_open()) nic->stack().progress(monotonic_ns());
    }
  }

  const std::string& socket() const { return config_.socket; }

  // Of this process.
  static std::size_t threads() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
  }

  TestGranter::Log ports;
  EventLoop loop;
  ServiceCounters counters;
  std::vector<std::unique_ptr<AgentNic>> nics;
  LocalPaths local_paths{counters};
  std::unique_ptr<SessionServer> server;

 private:
  const std::size_t threads_before_ = threads();
  Config config_;
};

// A program's end of the socket.
class TestProgram {
 public:
  struct Answer {
    std::size_t bytes = 0;
    control::HelloAnswer hello{};
    std::vector<Descriptor> fds;
  };

  explicit TestProgram(const std::string& socket_name)
      : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const SocketAddress address(socket_name);
    connected_ = connect(fd_.get(), address.get(), address.bytes) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  void close() { fd_.close(); }

  static control::Hello hello(const char* device = "nic0",
                              control::Placement placement = control::Placement::kHosted) {
    control::Hello out{};
    out.placement = static_cast<std::uint32_t>(placement);
    out.head.kind = static_cast<std::uint16_t>(control::Kind::kHello);
    out.head.bytes = sizeof out;
    std::strncpy(out.device, device, sizeof out.device - 1);
    return out;
  }

  bool say(const void* data, std::size_t bytes, std::span<const int> fds = {}) {
    iovec piece{const_cast<void*>(data), bytes};
    std::vector<std::byte> room(CMSG_SPACE(fds.size_bytes()));
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = room.data();
      message.msg_controllen = room.size();
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
    }
    return sendmsg(fd_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
  }
  template <class Message>
  bool say(const Message& message) {
    return say(&message, sizeof message);
  }

  // The answer so far; nothing if there is none, or if the server has closed.
  std::optional<Answer> answer() {
    Answer out;
    iovec piece{&out.hello, sizeof out.hello};
    alignas(cmsghdr) char room[CMSG_SPACE(8 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    const ssize_t bytes = recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
    if (bytes <= 0) return std::nullopt;
    out.bytes = static_cast<std::size_t>(bytes);
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&message)) {
      const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
        out.fds.emplace_back(fd);
      }
    }
    return out;
  }

  // The server has closed and there is nothing left to read.
  bool closed() {
    std::byte room[1];
    const ssize_t bytes = recv(fd_.get(), room, sizeof room, MSG_PEEK);
    return bytes == 0 || (bytes < 0 && errno == ECONNRESET);
  }

 private:
  Descriptor fd_;
  bool connected_ = false;
};

}  // namespace viaduct

#endif
