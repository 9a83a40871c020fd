// Peer: a control connection between the two ends. It carries short messages, in order, and is made
// of raw system calls, so that a preloaded library neither sees nor accelerates it.
#ifndef SEMANTICS_PEER_H
#define SEMANTICS_PEER_H

#include <netinet/in.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace semantics {

// The other end has gone, by its end or by the watchdog.
struct PeerGone : std::runtime_error {
  PeerGone() : runtime_error("the other end has gone") {}
};

class Peer {
 public:
  Peer() = default;
  explicit Peer(int fd);
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&& other) noexcept;
  ~Peer() { close(); }

  static int listener(std::uint16_t port);  // for accept()
  static Peer accept(int listener);
  static Peer connect(in_addr address, std::uint16_t port, int patience_ms);

  void tell(std::string_view message);
  std::string hear();
  void meet();  // returns when the other end has come to its meet() too
  void close();

  in_addr own_address() const;
  in_addr peer_address() const;

 private:
  int fd_ = -1;
};

}  // namespace semantics

#endif
