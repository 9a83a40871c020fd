#include "vipl/session/handshake.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "kagent/contract/default_agent.h"
#include "kagent/stack/program_proof.h"
#include "vipl/process/environment.h"
#include "vipl/process/sys.h"
#include "vipl/session/debug_log.h"
#include "vipl/session/message.h"
#include "vipl/session/session.h"

namespace viaduct::vipl {
namespace {

constexpr long kPatienceSeconds = 5;  // for an agent that accepts but does not answer

bool make_address(const char* name, AgentAddress& agent) {
  const std::size_t length = strlen(name);
  if (length >= sizeof agent.address.sun_path) {
    explain("the agent's socket has too long a name: %s", name);
    return false;
  }
  agent.address = {};
  agent.is_roots = false;
  agent.address.sun_family = AF_UNIX;
  memcpy(agent.address.sun_path, name, length);
  const bool abstract = name[0] == '@';
  if (abstract) agent.address.sun_path[0] = '\0';
  agent.bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + (abstract ? 0 : 1));
  return true;
}

// The agent's name for people; an abstract name begins with a NUL, which is left out.
const char* name_of(const AgentAddress& agent) {
  const char* const path = agent.address.sun_path;
  return path[0] == '\0' ? path + 1 : path;
}

// `kTells`: failures are explained.
enum class Manner { kTells, kQuiet };

bool may_be_trusted(int fd, const AgentAddress& agent, Manner manner) {
  ucred peer = {};
  socklen_t peer_bytes = sizeof peer;
  const bool known = sys::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0;
  if (known && (peer.uid == 0 || (!agent.is_roots && peer.uid == sys::user()))) return true;
  if (manner == Manner::kTells) {
    explain("the agent at %s runs as user %u, %s", name_of(agent), peer.uid,
            agent.is_roots ? "not as root" : "neither root nor ours");
  }
  return false;
}

int connect_to_agent(const AgentAddress& agent, int type, Manner manner = Manner::kTells) {
  const int fd = sys::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | type, 0);
  if (fd < 0) {
    explain("no socket: %s", strerror(errno));
    return -1;
  }
  const timeval patience = {kPatienceSeconds, 0};
  sys::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sys::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (sys::connect(fd, reinterpret_cast<const sockaddr*>(&agent.address), agent.bytes) != 0) {
    const int error = errno;
    if (type == 0 && manner == Manner::kTells) explain("no agent at %s: %s", name_of(agent), strerror(error));
    sys::close(fd);
    errno = error;
    return -1;
  }
  if (may_be_trusted(fd, agent, manner)) return fd;
  sys::close(fd);
  errno = ECONNREFUSED;
  return -1;
}

// Tells find_default_agent() which sockets answer.
struct DefaultWay {
  bool forbidden = false;  // a sandbox keeps the program from one of the sockets

  static AgentAddress address_of(const char* name) {
    AgentAddress out;
    make_address(name, out);
    out.is_roots = name[0] == '@';
    return out;
  }

  control::Answers answers(const char* name) {
    const int fd = connect_to_agent(address_of(name), SOCK_NONBLOCK, Manner::kQuiet);
    forbidden |= fd < 0 && errno == EPERM;
    if (fd < 0) return errno == EAGAIN ? control::Answers::kBusy : control::Answers::kNo;
    sys::close(fd);
    return control::Answers::kYes;
  }

  bool serves_this_network(const char* name) {
    const int fd = connect_to_agent(address_of(name), 0, Manner::kQuiet);
    if (fd < 0) return true;
    std::uint64_t own = 0;
    socklen_t own_bytes = sizeof own;
    sys::getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &own, &own_bytes);
    control::MessageHead request = {};
    request.kind = static_cast<std::uint16_t>(control::Kind::kNetwork);
    request.bytes = sizeof request;
    control::Network answer = {};
    long bytes = -1;
    if (sys::send(fd, &request, sizeof request, MSG_NOSIGNAL) == sizeof request) {
      bytes = sys::recv(fd, &answer, sizeof answer, MSG_TRUNC);
    }
    sys::close(fd);
    return !control::is_of_other_network(answer, bytes, own);
  }
};

bool find_agent(const char* told, AgentAddress& agent) {
  if (*told != '\0') return make_address(told, agent);
  DefaultWay way;
  agent = DefaultWay::address_of(control::find_default_agent(way));
  agent.is_forbidden = way.forbidden;
  return true;
}

control::Proof own_proof() {
  const unsigned long secret = getauxval(AT_RANDOM);
  return secret == 0 ? control::Proof{} : prove_program(reinterpret_cast<const void*>(secret));
}

bool send_hello(int fd, const char* device, control::Placement placement) {
  struct {
    control::Hello hello;
  } message = {};
  control::Hello& hello = message.hello;
  hello.head.kind = static_cast<std::uint16_t>(control::Kind::kHello);
  hello.head.bytes = sizeof hello;
  hello.placement = static_cast<std::uint32_t>(placement);
  strncpy(hello.device, device, sizeof hello.device - 1);
  hello.proof = own_proof();
  if (sys::send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) return true;
  explain("cannot speak to the agent: %s", strerror(errno));
  return false;
}

// Codes with which the agent may refuse; the rest of its codes make no sense here.
VIP_RETURN refusal(std::uint32_t result) {
  return result == VIP_INVALID_PARAMETER ? VIP_INVALID_PARAMETER : VIP_ERROR_RESOURCE;
}

// Descriptors that come with an answer: see control.h.
bool is_expected(unsigned descriptors, control::Kind asked, const Hello& hello) {
  if (!hello.granted() || asked == control::Kind::kAdopt) return descriptors == control::kHostedDescriptors;
  if (asked == control::Kind::kAttach) return descriptors == control::kAttachedDescriptors;
  if (!hello.answer.trains.any()) return descriptors == control::kGrantedDescriptors;
  // An agent of an earlier version gives no guard.
  return descriptors == control::kGrantedDescriptors + 1 || descriptors == control::kGrantedDescriptors + 2;
}

void take_descriptors(const int* fds, unsigned count, Hello& hello) {
  hello.segment = fds[0];
  hello.agent_wake = fds[1];
  hello.poll_wake = fds[count - 1];
  hello.port = hello.umem = hello.granted_segment = hello.trains = hello.train_guard = hello.link = -1;
  if (count >= control::kGrantedDescriptors) {
    hello.port = fds[2], hello.umem = fds[3], hello.granted_segment = fds[4];
    if (count > control::kGrantedDescriptors) hello.trains = fds[5];
    if (count > control::kGrantedDescriptors + 1) hello.train_guard = fds[6];
  } else if (count == control::kAttachedDescriptors) {
    hello.granted_segment = fds[2], hello.link = fds[3];
  }
}

VIP_RETURN receive_answer(int fd, Hello& hello, control::Kind asked) {
  control::HelloAnswer& answer = hello.answer;
  int fds[control::kMostDescriptors] = {-1, -1, -1, -1, -1, -1, -1, -1};
  unsigned descriptors;
  long bytes;
  do {
    descriptors = control::kMostDescriptors;
    bytes = receive_message(fd, &answer, sizeof answer, fds, descriptors, 0);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) {
    explain(errno == EBADMSG ? "the agent's answer is malformed" : "the agent does not answer: %s",
            strerror(errno));
    return VIP_ERROR_RESOURCE;
  }
  VIP_RETURN result = VIP_ERROR_RESOURCE;
  const control::MessageHead& head = answer.head;
  const bool has_head = bytes >= static_cast<long>(sizeof head);
  if (bytes == 0) {
    explain("the agent closed the connection without an answer");
  } else if (!has_head || head.magic != control::kMagic || head.version != control::kVersion) {
    explain("the agent speaks another version of the protocol");
  } else if (head.result != VIP_SUCCESS) {
    const bool has_reason = bytes >= static_cast<long>(offsetof(control::HelloAnswer, capacity));
    answer.reason[sizeof answer.reason - 1] = '\0';
    explain("the agent refuses: %s", has_reason ? answer.reason : "it does not say why");
    result = refusal(head.result);
  } else if (bytes != sizeof answer || head.bytes != sizeof answer ||
             !is_expected(descriptors, asked, hello)) {
    explain("the agent's answer is malformed");
  } else {
    hello.socket = fd;
    take_descriptors(fds, descriptors, hello);
    return VIP_SUCCESS;
  }
  for (const int extra : fds) {
    if (extra >= 0) sys::close(extra);
  }
  return result;
}

bool plausible(const control::HelloAnswer& answer) {
  const layout::Capacity& c = answer.capacity;
  return c.vis <= 0xffff && c.cqs <= 0xffff && c.slots <= layout::kMaxSlots &&
         c.vis + c.cqs <= layout::kMostBits &&
         layout::Offsets(c).total == answer.segment_bytes;
}

}  // namespace

VIP_RETURN say_hello(const char* device, Hello& hello) {
  const environment::Seen seen = environment::look();
  if (seen.placement_is_nonsense) {
    explain("%s is neither auto nor hosted nor granted: ignored", control::kPlacementVariable);
  }
  if (!find_agent(seen.socket, hello.agent)) return VIP_ERROR_RESOURCE;
  const int fd = connect_to_agent(hello.agent, 0);
  if (fd < 0 && hello.agent.is_forbidden) errno = EPERM;
  if (fd < 0) return VIP_ERROR_RESOURCE;
  VIP_RETURN result = VIP_ERROR_RESOURCE;
  if (send_hello(fd, device, seen.placement)) result = receive_answer(fd, hello, control::Kind::kHello);
  if (result != VIP_SUCCESS) sys::close(fd);
  return result;
}

VIP_RETURN ask_for_nic(const char* device, control::NicAttributes& nic) {
  AgentAddress agent;
  if (!find_agent(environment::look().socket, agent)) return VIP_ERROR_RESOURCE;
  const int fd = connect_to_agent(agent, 0);
  if (fd < 0) return VIP_ERROR_RESOURCE;
  control::AskNic ask = {};
  ask.head.kind = static_cast<std::uint16_t>(control::Kind::kNic);
  ask.head.bytes = sizeof ask;
  strncpy(ask.device, device, sizeof ask.device - 1);
  union {
    control::NicAnswer nic;
    control::HelloAnswer refusal;
  } answer = {};
  long bytes = -1;
  if (sys::send(fd, &ask, sizeof ask, MSG_NOSIGNAL) == sizeof ask) {
    bytes = sys::recv(fd, &answer, sizeof answer, MSG_TRUNC);
  }
  sys::close(fd);
  const control::MessageHead& head = answer.nic.head;
  if (bytes < static_cast<long>(sizeof head) || head.magic != control::kMagic || head.version != control::kVersion) {
    explain("the agent does not tell of its NICs");
    return VIP_ERROR_RESOURCE;
  }
  if (head.result != VIP_SUCCESS) return refusal(head.result);
  if (bytes != sizeof answer.nic || head.kind != static_cast<std::uint16_t>(control::Kind::kNic)) return VIP_ERROR_RESOURCE;
  nic = answer.nic.nic;
  nic.name[sizeof nic.name - 1] = '\0';
  return VIP_SUCCESS;
}

VIP_RETURN say_attach(const Session& session, Hello& hello) {
  const int fd = connect_to_agent(session.agent, 0);
  if (fd < 0) return VIP_ERROR_RESOURCE;
  control::Attach attach = {};
  attach.head.kind = static_cast<std::uint16_t>(control::Kind::kAttach);
  attach.head.bytes = sizeof attach;
  attach.family = session.family.secret;
  attach.parent = session.family.parent;
  attach.forks = session.family.forks;
  attach.proof = own_proof();
  VIP_RETURN result = VIP_ERROR_RESOURCE;
  if (sys::send(fd, &attach, sizeof attach, MSG_NOSIGNAL) == sizeof attach) {
    result = receive_answer(fd, hello, control::Kind::kAttach);
  }
  if (result != VIP_SUCCESS) sys::close(fd);
  return result;
}

int ask_for_adoption(const Session& session) {
  const int fd = connect_to_agent(session.agent, SOCK_NONBLOCK);
  if (fd < 0) return -1;
  struct {
    control::Adopt adopt;
  } message = {};
  control::Adopt& adopt = message.adopt;
  adopt.head.kind = static_cast<std::uint16_t>(control::Kind::kAdopt);
  adopt.head.bytes = sizeof adopt;
  static_assert(sizeof adopt.device == sizeof session.nic.name);
  memcpy(adopt.device, session.nic.name, sizeof adopt.device);
  const MacAddress address = session.driver->port().address();
  for (std::size_t i = 0; i < sizeof adopt.port; ++i) adopt.port[i] = address[i];
  adopt.granted_segment = session.granted_segment;
  adopt.umem = session.umem;
  adopt.family = session.family.secret;
  adopt.proof = own_proof();
  if (sys::send(fd, &adopt, sizeof adopt, MSG_NOSIGNAL) == sizeof adopt) return fd;
  sys::close(fd);
  return -1;
}

Adoption hear_of_adoption(int socket, Hello& hello) {
  char anything;
  const long bytes = sys::recv(socket, &anything, 1, MSG_PEEK | MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Adoption::kNotYet;
  if (bytes <= 0) return Adoption::kHungUp;
  return receive_answer(socket, hello, control::Kind::kAdopt) == VIP_SUCCESS ? Adoption::kTaken
                                                                              : Adoption::kRefused;
}

void* map_segment(const Hello& hello) {
  const control::HelloAnswer& answer = hello.answer;
  if (!plausible(answer)) {
    explain("the agent's answer has impossible capacities");
    return nullptr;
  }
  const int seals = sys::get_seals(hello.segment);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      sys::seek_end(hello.segment) != static_cast<long>(answer.segment_bytes)) {
    explain("the agent's segment is not sealed or has another size than announced");
    return nullptr;
  }
  void* const base = sys::map(answer.segment_bytes, hello.segment);
  if (base == nullptr) {
    explain("no memory to map a segment of %llu bytes",
            static_cast<unsigned long long>(answer.segment_bytes));
    return nullptr;
  }
  const layout::Header& header = layout::View(base, answer.capacity).header();
  if (header.magic != layout::kMagic || header.version != layout::kLayoutVersion ||
      header.bytes != answer.segment_bytes ||
      memcmp(&header.capacity, &answer.capacity, sizeof answer.capacity) != 0) {
    explain("the agent's segment is of another version than this library");
    sys::unmap(base, answer.segment_bytes);
    return nullptr;
  }
  return base;
}

bool map_control_session(const Hello& hello, Session& s) {
  void* const base = map_segment(hello);
  if (base == nullptr) return false;
  s.control_session = layout::View(base, hello.answer.capacity);
  s.control_bytes = hello.answer.segment_bytes;
  return true;
}

}  // namespace viaduct::vipl
