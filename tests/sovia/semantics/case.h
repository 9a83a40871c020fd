// Case: the tools of a case's body. Each body runs at both ends, in one process each:
//
//     CASE(flags, peek_leaves_the_bytes, kEach) {
//       Fd s = t.pair();
//       if (t.client()) {
//         send_all(s, "hello");
//       } else {
//         char to[5];
//         t.note("peek", recv(s, to, 5, MSG_PEEK | MSG_WAITALL));
//         t.data("read", read_exactly(s, 5));
//       }
//     }
//
// A body says what it sees in its transcript, which must be the same over TCP and over whatever is
// preloaded, and the same each time: nothing in it may depend on time, on the size of the kernel's
// buffers, or on how a stream is cut into pieces.
#ifndef SEMANTICS_CASE_H
#define SEMANTICS_CASE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fd.h"
#include "peer.h"
#include "transcript.h"

namespace semantics {

enum class Role { kClient, kServer };

// When the body gets its connection: straight after connect, after so few messages that an
// acceleration may only just be on its way, or when one that takes part is in force.
enum class Warmth { kCold, kRising, kWarm };

// In which forms a case exists. Without any of the first three it has one form only, cold.
enum Forms : unsigned {
  kOnce = 0,
  kCold = 1,
  kRising = 2,
  kWarm = 4,
  kEach = kCold | kRising | kWarm,
  kAlone = 8,  // in processes of its own: it forks, changes limits, leaves threads behind ...
};

struct Settings {
  in_addr client{}, server{};        // the hosts' addresses
  in6_addr client6{}, server6{};     // 0 where there is no IPv6
  std::chrono::milliseconds warm{};  // how long a warm-up waits for an acceleration
  std::uint64_t seed = 1;
};

// A case can't go on: a call failed that has nothing to do with what is tested.
struct CaseFails : std::runtime_error {
  using runtime_error::runtime_error;
};

struct PairOptions {
  int family = AF_INET;
  int send_buffer = 0, receive_buffer = 0;  // 0: as the kernel has it
};

class Case {
 public:
  Case(Role role, Warmth warmth, Peer& peer, const Transcript& transcript, const Settings& settings)
      : role_(role), warmth_(warmth), peer_(peer), transcript_(transcript), settings_(settings) {}

  bool client() const { return role_ == Role::kClient; }
  bool server() const { return role_ == Role::kServer; }
  const Settings& settings() const { return settings_; }

  // "WHAT: RESULT"; a result of -1 is shown as the name of errno, which must still be the call's.
  void note(std::string_view what, long result) const;
  void data(std::string_view what, std::string_view bytes) const;
  void say(std::string_view line) const { transcript_.line(line); }
  void remark(std::string_view line) const { transcript_.line("# " + std::string(line)); }

  void meet() const { peer_.meet(); }
  void tell(std::string_view message) const { peer_.tell(message); }
  std::string hear() const { return peer_.hear(); }

  // A connection between the ends, as warm as the form of the case asks.
  Fd pair(const PairOptions& options = {}) const;
  Fd cold_pair(const PairOptions& options = {}) const;
  std::vector<Fd> pairs(std::size_t n) const;  // the first at one end is the first at the other
  // Both ends call these together. warm_up() leaves nothing unread.
  void warm_up(int socket) const;
  void warm_as_asked(int socket) const;

  // The parts of pair(): the server listens and tells where; the client hears it.
  Fd listen(const PairOptions& options = {}, int backlog = 16) const;
  sockaddr_storage hear_address(int family = AF_INET) const;

  // "client:PORT", "server:PORT", "any:0" ...
  std::string name_of(const sockaddr* address, socklen_t size) const;

 private:
  Role role_;
  Warmth warmth_;
  Peer& peer_;
  const Transcript& transcript_;
  const Settings& settings_;
};

using Body = void (*)(Case&);

// One case in one of its forms.
struct Registered {
  std::string name;  // SUBJECT.NAME[.cold|.rising|.warm]
  Body body;
  Warmth warmth;
  bool alone;
};

const std::vector<Registered>& all_cases();  // in the order of their names
bool register_case(const char* subject, const char* name, Body body, unsigned forms);

#define CASE(subject, name, forms)                                          \
  static void subject##_##name([[maybe_unused]] ::semantics::Case& t);      \
  [[maybe_unused]] static const bool subject##_##name##_is_registered =     \
      ::semantics::register_case(#subject, #name, subject##_##name, forms); \
  static void subject##_##name([[maybe_unused]] ::semantics::Case& t)

inline socklen_t size_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

}  // namespace semantics

#endif
