// Services that the agent's stack needs from the world around it. A stack in a program has GrantedEnvironment
// instead, whose functions are the same but not virtual.
#ifndef VIADUCT_KAGENT_STACK_ENVIRONMENT_H
#define VIADUCT_KAGENT_STACK_ENVIRONMENT_H

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kagent/contract/quota.h"
#include "kagent/contract/session_layout.h"
#include "xdp/port.h"

namespace viaduct {

class Environment {
 public:
  virtual ~Environment() = default;

  // Programs go by the stack's numbers: the first program of a session by the session's, programs that have attached
  // by the number that Stack::join() has returned.

  // Data that was read late is given only to the same reader, as a place may have other data later. `psn`: the first
  // frame of the message or response, whose data stays as it is; of a taken VI, the bytes that were copied before.
  struct Reader {
    enum class What : std::uint8_t { kFrames, kTakenVi } what;
    std::uint32_t vi, generation, psn;
    bool operator==(const Reader&) const = default;
  };

  // Copies between the memory of a program (`remote`, addresses of that program) and our
  // own, in the order given; later pieces become visible after earlier ones. The lengths add up to
  // the same. False if any byte could not be copied.
  virtual bool read_program(std::uint32_t program, const Reader& reader, std::span<const iovec> remote,
                            std::span<const iovec> local) = 0;
  virtual bool write_program(std::uint32_t program, std::span<const iovec> remote,
                             std::span<const iovec> local) = 0;

  // A program whose memory can't be reached for a while must not hold up the others. Then write_program() may return
  // true before the data is there: `late` is not 0, the completion that would tell the program of the data is
  // deferred (defer()) and comes back in order (take_due()). And read_program() may return false only for now:
  // `postponed`.
  struct Late {
    std::uint32_t vi, generation;
    std::uint32_t program;
    // kReceive: a receive completes. kRead: the RDMA read at position `slot` has its data. kSend: the data of a send
    // is there.
    enum class What : std::uint8_t { kReceive, kRead, kSend } what;
    std::uint32_t slot = 0, status = 0, length = 0, immediate = 0, inline_length = 0;
  };
  std::uint32_t late = 0;     // programs with deferred work
  bool postponed = false;     // whether the last read that failed may succeed later
  virtual bool is_late(std::uint32_t program) = 0;
  // Whether so much data waits for the program that no more should be written.
  virtual bool is_full(std::uint32_t program) = 0;
  virtual void defer(const Late& what) = 0;
  // To be called after a read of this program was postponed: a kSend comes due when it is worth another try. False:
  // no read of it is postponed.
  virtual bool await_read(const Late& what) = 0;
  // The next deferred work that is due; `failed`: data before it could not be written.
  virtual bool take_due(Late& out, bool& failed) = 0;

  // Wakes all threads that sleep on this futex word, which lies in a session's segment.
  virtual void wake(std::atomic<std::uint32_t>& word) = 0;

  // Wakes the program's threads that poll: a word of its queues had kPoller set (session_layout.h).
  virtual void poll_wake(std::uint32_t program) = 0;

  // Resources of a session count for its user, which has limits of its own. False, and nothing is
  // counted, if there would be too much of it; with a negative `change` always true.
  virtual bool charge(std::uint32_t session, Quota what, std::int64_t change) = 0;

  // Unpredictable: connection keys come from here.
  virtual std::uint64_t random() = 0;

  // The MAC address that the own name table gives for `name`, or our own if the name is ours.
  virtual std::optional<MacAddress> look_up(std::string_view name) = 0;

  // Whether `name` (a host name or the text of an IP address) is ours, to answer other hosts.
  virtual bool is_own_name(std::string_view name) = 0;

  // Our host name; at most wire::kMaxNameBytes of it are told to others.
  virtual std::string_view own_name() = 0;

  // Whether the program of a session may claim this connection of our host as its own.
  virtual Owns owns(std::uint32_t session, const Flow& flow) = 0;

  // Returns the peer's VI and key of a connection that a granted program's own stack has, if the program lives but does
  // not drive that stack; else nothing. Only the agent's stack calls this.
  struct Connection {
    std::uint32_t peer_vi;
    std::uint64_t peer_key;
  };
  virtual std::optional<Connection> stopped(std::uint32_t session, std::uint32_t vi,
                                            std::uint64_t key) = 0;

  // Two ports are about to have a connection; at least the second is a granted port of this host. Only the agent's
  // stack calls this.
  virtual void introduce(const MacAddress& one, const MacAddress& other) = 0;

  // A granted stack tells the agent what it waits for at `local`: requests that end a ConnectWait,
  // or (`peer`; the host in `local` is then the peer's) the other half of a peer to peer connection.
  // See layout::Listener. Returns the listener's number, or layout::kNoListener; the agent itself,
  // which has no agent to tell, always the latter.
  virtual std::uint32_t publish(const layout::Address& local, bool peer) = 0;
  // Takes a listener back; not called with kNoListener.
  virtual void withdraw(std::uint32_t listener) = 0;
};

}  // namespace viaduct

#endif
