// The greeting by which the two ends of a datagram lane come to trust each other.
//
//     HELLO  a token that the peer's agent is asked about, whether this end trusts the peer, whether it
//            has heard that the peer trusts it, and whether it knows that the peer has heard it, too
//
// A HELLO may be lost, so each end repeats its own until the peer has heard that it is trusted, and answers a HELLO of
// a peer that does not know yet. Datagrams are sent by an end that has heard that it is trusted, and taken by one that
// trusts.
#ifndef VIADUCT_SOVIA_DATAGRAM_HANDSHAKE_H
#define VIADUCT_SOVIA_DATAGRAM_HANDSHAKE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sovia/process/units.h"

namespace viaduct::sovia::datagram {

// The kind of a message on a lane, in its immediate data.
enum class Kind : std::uint32_t {
  kData = 0x53550001,   // a datagram of the program's
  kHello = 0x53550002,
  kLeave = 0x53550003,  // the sender sends no more datagrams here; the peer is to do the same
  kLeft = 0x53550004,   // the answer: the peer's last datagram has gone
};

class Handshake {
 public:
  using Token = std::array<std::uint8_t, 16>;
  struct Hello {
    char name[3];
    std::uint8_t flags;
    Token token;
  };
  static_assert(sizeof(Hello) == 20);
  static constexpr std::uint64_t kRepeatNs = 20 * kMs;

  void begin(const Token& own) {
    own_ = own;
    begun_ = true;
  }
  // The peer's agent vouches for the peer: this end trusts it.
  void trust() {
    if (trusts_) return;
    trusts_ = true;
    next_at_ = 0;
  }

  // Takes a HELLO. False if the data is none. Only the token of the first one counts, as the agent is asked about that.
  bool take(const std::byte* data, std::size_t bytes) {
    Hello hello;
    if (bytes != sizeof hello) return false;
    std::memcpy(&hello, data, sizeof hello);
    if (std::memcmp(hello.name, kName, sizeof kName) != 0 || (hello.flags & ~(kTrusts | kHeard | kDone)) != 0) {
      return false;
    }
    if (!heard_) theirs_ = hello.token;
    heard_ = true;
    if (hello.token != theirs_) return false;
    if ((hello.flags & kTrusts) != 0) trusted_ = true;
    if ((hello.flags & kHeard) != 0 && trusts_) peer_knows_ = true;
    if (trusted_ && trusts_ && (hello.flags & kDone) == 0) next_at_ = 0;  // the peer waits for an answer
    return true;
  }

  bool heard() const { return heard_; }
  const Token& peer_token() const { return theirs_; }
  bool trusts() const { return trusts_; }
  bool trusted() const { return trusted_; }

  // The time when the next HELLO is due; kNotDue: none is.
  static constexpr std::uint64_t kNotDue = ~std::uint64_t{0};
  std::uint64_t due() const {
    if (!begun_) return kNotDue;
    return peer_knows_ && next_at_ != 0 ? kNotDue : next_at_;
  }
  Hello next(std::uint64_t now) {
    next_at_ = now + kRepeatNs;
    Hello hello{};
    std::memcpy(hello.name, kName, sizeof kName);
    if (trusts_) hello.flags |= kTrusts;
    if (trusted_) hello.flags |= kHeard;
    if (peer_knows_) hello.flags |= kDone;
    hello.token = own_;
    return hello;
  }

 private:
  static constexpr char kName[3] = {'S', 'U', '1'};
  static constexpr std::uint8_t kTrusts = 1, kHeard = 2, kDone = 4;

  Token own_{}, theirs_{};
  bool begun_ = false;
  bool heard_ = false;       // the peer's token has come
  bool trusts_ = false;      // this end trusts the peer
  bool trusted_ = false;     // the peer trusts this end
  bool peer_knows_ = false;  // the peer knows that it is trusted
  std::uint64_t next_at_ = 0;
};

}  // namespace viaduct::sovia::datagram

#endif
