// granted_tool DEVICE PLACEMENT STEP...: a program that speaks to the agent by itself, for tests of the rights of a
// granted port. PLACEMENT: auto, hosted, granted. Prints the grant in one line,
//
//   granted ADDRESS host ADDRESS control session ADDRESS mtu N in US     hosted     refused REASON (status 3)
//
// and takes the steps one after the other:
//
//   send TO WHAT       sends a frame: good or own-request (a connection request of this host), or
//                      with one thing wrong: source, type, long, name, name-query, request or
//                      accept (of another host); TO: an address, or everybody
//   receive MS         says "got SOURCE BYTES" for each frame that comes within this time
//   mark               tries to change the socket's mark
//   abuse              tries everything else on the socket
//   granted-segment MS, session-segment MS, rings MS     writes nonsense all over these for this time
//   deaf MS            does nothing at all
//   touch FILE, await FILE         to synchronize several of these
//   leave              ends the session, but keeps all descriptors that came with it
//   lost               waits until the agent ends the session
//   adopt WHAT         asks the next agent to adopt the session, and says "adopted" or "not adopted
//                      REASON"; good, or with one thing wrong: segment, umem, address, device
//   user NUMBER        becomes another user
//
// granted_tool watch IF MS    says "saw TO FROM TYPE BYTES" for each frame on an interface
// granted_tool inject IF TO   sends a good frame there, from the interface's address
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "xdp/clock.h"
#include "kagent/agent/config/config.h"
#include "kagent/contract/control.h"
#include "xdp/descriptor.h"
#include "kagent/contract/granted_segment.h"
#include "kagent/contract/wire.h"
#include "xdp/grant/granted_port.h"
#include "xdp/interface.h"

namespace {

using namespace viaduct;
using control::Placement;

constexpr int kRefused = 3;
constexpr std::uint32_t kGoodBytes = 100;

[[noreturn]] void fail(const std::string& what) {
  std::printf("failed: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

std::uint64_t deadline(const std::string& ms) {
  return monotonic_ns() + std::stoull(ms) * kNsPerMs;
}

MacAddress address(const std::string& text) {
  if (text == "everybody") return kBroadcast;
  const auto out = parse_mac(text);
  if (!out) fail("address " + text);
  return *out;
}

MacAddress address(const std::uint8_t* bytes) {
  MacAddress out;
  std::memcpy(out.data(), bytes, out.size());
  return out;
}

// ---------------------------------------------------------------------------- the session

class Session {
 public:
  Session(const char* device, Placement placement);

  bool granted() const {
    return answer_.placement == static_cast<std::uint32_t>(Placement::kGranted);
  }
  const control::HelloAnswer& answer() const { return answer_; }
  int fd(std::size_t which) const { return fds_.at(which).get(); }
  GrantedPort& port() { return port_; }
  void wait_for_end() const;
  void leave() { socket_.close(); }
  void adopt(const std::string& what);

 private:
  Descriptor socket_;
  control::HelloAnswer answer_{};
  std::vector<Descriptor> fds_;
  GrantedPort port_;
};

Descriptor connect_to_agent() {
  Descriptor out(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un agent{};
  agent.sun_family = AF_UNIX;
  std::strcpy(agent.sun_path + 1, control::kAbstractSocket + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                            std::strlen(control::kAbstractSocket));
  if (connect(out.get(), reinterpret_cast<const sockaddr*>(&agent), bytes) != 0) fail("connect");
  return out;
}

Session::Session(const char* device, Placement placement) : socket_(connect_to_agent()) {
  control::Hello hello{};
  hello.head.kind = static_cast<std::uint16_t>(control::Kind::kHello);
  hello.head.bytes = sizeof hello;
  hello.placement = static_cast<std::uint32_t>(placement);
  std::strncpy(hello.device, device, sizeof hello.device - 1);
  const std::uint64_t begin = monotonic_ns();
  if (send(socket_.get(), &hello, sizeof hello, 0) != sizeof hello) fail("hello");

  iovec piece{&answer_, sizeof answer_};
  alignas(cmsghdr) char room[CMSG_SPACE(8 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  if (recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC) != sizeof answer_) fail("answer");
  const std::uint64_t took = monotonic_ns() - begin;
  if (answer_.head.result != 0) {
    std::printf("refused %s\n", answer_.reason);
    std::exit(kRefused);
  }
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&message)) {
    for (std::size_t at = CMSG_LEN(0); at < rights->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, reinterpret_cast<const char*>(rights) + at, sizeof fd);
      fds_.emplace_back(fd);
    }
  }
  const unsigned granted_ones = control::kGrantedDescriptors + (answer_.trains.any() ? 1 : 0);
  if (fds_.size() != (granted() ? granted_ones : control::kHostedDescriptors)) {
    fail("descriptors");
  }
  if (!granted()) {
    std::printf("hosted\n");
    return;
  }
  const int port = fcntl(fd(2), F_DUPFD_CLOEXEC, 0), umem = fcntl(fd(3), F_DUPFD_CLOEXEC, 0);
  if (const char* what = port_.open(port, umem, answer_.port)) fail(what);
  std::printf("granted %s host %s session %s mtu %u in %llu\n", to_text(port_.address()).c_str(),
              to_text(address(answer_.host)).c_str(), to_text(address(answer_.control_session)).c_str(),
              port_.mtu(), static_cast<unsigned long long>(took / kNsPerUs));
}

// The descriptors of the answer are of no use here.
void Session::adopt(const std::string& what) {
  Descriptor agent = connect_to_agent();
  control::Adopt adopt{};
  adopt.head.kind = static_cast<std::uint16_t>(control::Kind::kAdopt);
  adopt.head.bytes = sizeof adopt;
  std::strcpy(adopt.device, what == "device" ? "lo" : "nic0");
  const MacAddress own = port_.address();
  std::copy(own.begin(), own.end(), adopt.port);
  if (what == "address") ++adopt.port[1];
  // Files that it has, but not these.
  adopt.granted_segment = what == "segment" ? fd(3) : fd(4);
  adopt.umem = what == "umem" ? fd(0) : fd(3);
  control::HelloAnswer answer{};
  if (send(agent.get(), &adopt, sizeof adopt, 0) != sizeof adopt) fail("adopt");
  if (recv(agent.get(), &answer, sizeof answer, 0) != sizeof answer) fail("answer");
  if (answer.head.result != 0) {
    std::printf("not adopted %s\n", answer.reason);
    return;
  }
  std::printf("adopted\n");
  socket_ = std::move(agent);
}

void Session::wait_for_end() const {
  char byte;
  if (recv(socket_.get(), &byte, 1, 0) != 0) fail("end of session");
  std::printf("session ended\n");
}

// ---------------------------------------------------------------------------- frames

// A frame from `from`, good but for one thing. Returns its length.
std::size_t make_frame(std::byte* out, const MacAddress& to, MacAddress from,
                       const MacAddress& host, const std::string& what, std::uint32_t mtu) {
  wire::Header header{wire::Type::kData};
  header.flags = wire::kFlagFirst | wire::kFlagLast;
  std::uint16_t type = wire::kDefaultEtherType;
  std::size_t least = kGoodBytes;
  if (what == "source") from[3] ^= 1;
  if (what == "type") type = 0x0800;
  if (what == "long") least = wire::kEthernetBytes + mtu + 1;
  if (what == "name") header.type = wire::Type::kNameReply;
  if (what == "claim") header.type = wire::Type::kClaimReply;
  if (what == "claim-query") header.type = wire::Type::kClaimQuery;
  if (what == "unknown") header.type = static_cast<wire::Type>(wire::kLastType + 1);
  if (what == "name-query") header.type = wire::Type::kNameQuery;
  const bool own = what == "own-request";
  if (own || what == "request" || what == "accept") {
    header.type = what == "accept" ? wire::Type::kConnectAccept : wire::Type::kConnectRequest;
    wire::ConnectBody body{};
    body.host = host;
    body.host[5] ^= own ? 0 : 1;
    header.payload_length = static_cast<std::uint16_t>(
        wire::encode(body, out + wire::kEthernetBytes + wire::kHeaderBytes));
  }
  if (header.type != wire::Type::kData) header.flags = 0;
  const std::size_t bytes = wire::encode(header, to, from, type, out);
  if (bytes >= least) return bytes;
  std::memset(out + bytes, 0, least - bytes);
  return least;
}

void send_frame(Session& session, const std::string& to, const std::string& what) {
  GrantedPort& port = session.port();
  Frame frame;
  if (port.reserve({&frame, 1}) != 1) fail("no buffer");
  frame.length = static_cast<std::uint32_t>(make_frame(
      frame.data, address(to), port.address(), address(session.answer().host), what, port.mtu()));
  port.submit({&frame, 1});
  port.flush();
  std::printf("sent %s\n", what.c_str());
}

void receive_frames(Session& session, const std::string& ms) {
  Frame frame;
  for (const std::uint64_t end = deadline(ms); monotonic_ns() < end; usleep(1000)) {
    while (session.port().receive({&frame, 1}) == 1) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(frame.data);
      std::printf("got %s %u\n", to_text(address(bytes + 6)).c_str(), frame.length);
      session.port().release({&frame, 1});
    }
  }
}

// ---------------------------------------------------------------------------- mischief

void try_to(const char* what, int result) {
  std::printf("%s: %s\n", what, result == 0 ? "allowed" : std::strerror(errno));
}

void change_mark(Session& session) {
  const int none = 0;
  try_to("mark", setsockopt(session.fd(2), SOL_SOCKET, SO_MARK, &none, sizeof none));
}

// Tries all that the kernel may allow; no other process may notice.
void abuse(Session& session) {
  const int fd = session.fd(2), one = 1;
  signal(SIGIO, SIG_IGN);
  try_to("shutdown", shutdown(fd, SHUT_RDWR));
  try_to("send buffer", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &one, sizeof one));
  try_to("receive ring", setsockopt(fd, SOL_XDP, XDP_RX_RING, &one, sizeof one));
  try_to("fill ring", setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &one, sizeof one));
  std::vector<char> memory(8192);
  xdp_umem_reg umem{};
  umem.addr = (reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) & ~4095ul;
  umem.len = 4096;
  umem.chunk_size = 2048;
  try_to("other memory", setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem));
  sockaddr_xdp where{};
  where.sxdp_family = AF_XDP;
  where.sxdp_ifindex = if_nametoindex("via0");
  where.sxdp_flags = XDP_COPY;
  try_to("bind", bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where));
  where.sxdp_flags = XDP_SHARED_UMEM;
  where.sxdp_shared_umem_fd = static_cast<std::uint32_t>(fd);
  Descriptor second(socket(AF_XDP, SOCK_RAW, 0));
  try_to("another socket", second ? 0 : -1);
  if (second)
    try_to("bind it", bind(second.get(), reinterpret_cast<sockaddr*>(&where), sizeof where));
  try_to("leave blocking", fcntl(fd, F_SETFL, 0));
  try_to("be told by signals", fcntl(fd, F_SETOWN, getpid()) | fcntl(fd, F_SETFL, O_ASYNC));
  try_to("shrink the memory", ftruncate(session.fd(3), 0));
  try_to("shrink the granted segment", ftruncate(session.fd(4), 0));
  try_to("shrink the session segment", ftruncate(session.fd(0), 0));
  try_to("seal the granted segment", fcntl(session.fd(4), F_ADD_SEALS, F_SEAL_WRITE));
  try_to("holes in the granted segment",
         fallocate(session.fd(4), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
}

std::uint32_t draw() {
  static std::mt19937 random(1);
  return static_cast<std::uint32_t>(random());
}

// Small numbers are what passes for an index; all bits set is what stands for none.
std::uint32_t nonsense() {
  const std::uint32_t value = draw();
  switch (draw() >> 30) {
    case 0:
      return value >> 24;
    case 1:
      return value >> 30 == 0 ? ~0u : value >> 16;
    default:
      return value;
  }
}

void scribble(int fd, std::size_t bytes, std::size_t offset, const std::string& ms) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                        static_cast<off_t>(offset));
  if (at == MAP_FAILED) return;  // no such ring
  auto* const words = static_cast<std::uint32_t*>(at);
  // Dense at the beginning, where the heads of things are, sparse behind.
  const std::size_t count = bytes / sizeof *words, dense = std::min<std::size_t>(count, 1 << 20);
  for (const std::uint64_t end = deadline(ms); monotonic_ns() < end;) {
    for (std::size_t i = 0; i < 4096; ++i) {
      const std::size_t all = draw() % count;
      words[i % 16 == 0 ? all : all % dense] = nonsense();
    }
  }
  munmap(at, bytes);
}

// The session's segment and the stack's, each with what is at its beginning.
void scribble_granted_segment(Session& session, const std::string& ms) {
  const std::size_t stack = granted_stack_offset(granted_limits(session.answer()));
  for (const std::uint64_t end = deadline(ms); monotonic_ns() < end;) {
    scribble(session.fd(4), stack, 0, "20");
    scribble(session.fd(4), session.answer().granted_segment_bytes - stack, stack, "20");
  }
}

void scribble_rings(Session& session, const std::string& ms) {
  const std::uint64_t pages[] = {XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_FILL_RING,
                                 XDP_UMEM_PGOFF_COMPLETION_RING};
  for (const std::uint64_t end = deadline(ms); monotonic_ns() < end;) {
    for (const std::uint64_t page : pages) scribble(session.fd(2), 4096, page, "5");
    sendto(session.fd(2), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
    recvfrom(session.fd(2), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  }
}

// ---------------------------------------------------------------------------- steps

void await(const std::string& file) {
  while (access(file.c_str(), F_OK) != 0) usleep(10'000);
}

void take_steps(Session& session, const std::vector<std::string>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string& step = steps[i];
    const auto next = [&] { return i + 1 < steps.size() ? steps[++i] : std::string(); };
    if (step == "send") {
      const std::string to = next();
      send_frame(session, to, next());
    } else if (step == "receive") {
      receive_frames(session, next());
    } else if (step == "mark") {
      change_mark(session);
    } else if (step == "abuse") {
      abuse(session);
    } else if (step == "granted-segment") {
      scribble_granted_segment(session, next());
    } else if (step == "session-segment") {
      scribble(session.fd(0), session.answer().segment_bytes, 0, next());
    } else if (step == "rings") {
      scribble_rings(session, next());
    } else if (step == "deaf") {
      usleep(static_cast<useconds_t>(std::stoul(next()) * 1000));
    } else if (step == "touch") {
      Descriptor file(open(next().c_str(), O_CREAT | O_WRONLY, 0644));
    } else if (step == "await") {
      await(next());
    } else if (step == "leave") {
      session.leave();
    } else if (step == "lost") {
      session.wait_for_end();
    } else if (step == "adopt") {
      session.adopt(next());
    } else if (step == "user") {
      const auto user = static_cast<uid_t>(std::stoul(next()));
      if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) fail("user");
    } else {
      fail("step " + step);
    }
    std::fflush(stdout);
  }
}

// ---------------------------------------------------------------------------- the other host

Descriptor packet_socket(const std::string& interface) {
  Descriptor out(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (!out || bind(out.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    fail("packet socket");
  }
  return out;
}

void watch(const std::string& interface, const std::string& ms) {
  const Descriptor socket = packet_socket(interface);
  std::printf("watching\n");
  std::fflush(stdout);
  for (const std::uint64_t end = deadline(ms); monotonic_ns() < end;) {
    pollfd ready{socket.get(), POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    std::uint8_t frame[16384];
    sockaddr_ll from{};
    socklen_t from_bytes = sizeof from;
    const ssize_t bytes = recvfrom(socket.get(), frame, sizeof frame, 0,
                                   reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (bytes < 14 || from.sll_pkttype == PACKET_OUTGOING) continue;
    std::printf("saw %s %s %02x%02x %zd\n", to_text(address(frame)).c_str(),
                to_text(address(frame + 6)).c_str(), frame[12], frame[13], bytes);
    std::fflush(stdout);
  }
}

void inject(const std::string& interface, const std::string& to) {
  const Descriptor socket = packet_socket(interface);
  const Interface self = query_interface(interface);
  std::byte frame[2048];
  const std::size_t bytes =
      make_frame(frame, address(to), self.address, self.address, "good", self.mtu);
  if (send(socket.get(), frame, bytes, 0) != static_cast<ssize_t>(bytes)) fail("send");
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "watch") {
    watch(arguments[1], arguments[2]);
  } else if (arguments.size() == 3 && arguments[0] == "inject") {
    inject(arguments[1], arguments[2]);
  } else {
    if (arguments.size() < 2) fail("usage");
    const auto placement = placement_of(arguments[1]);
    if (!placement) fail("placement");
    Session session(arguments[0].c_str(), *placement);
    std::fflush(stdout);
    take_steps(session, {arguments.begin() + 2, arguments.end()});
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
