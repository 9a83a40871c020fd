// The client's requests to the server over their link: a command in the high bits of a message, a number in the
// others. The server answers each when it has been carried out.
#ifndef VIADUCT_TESTS_SCALE_PROTOCOL_H
#define VIADUCT_TESTS_SCALE_PROTOCOL_H

#include <cstdint>

namespace scale {

enum Command : std::uint32_t {
  kEcho = 0u << 28,
  kAccept = 1u << 28,     // so many connections, which stay
  kDrop = 2u << 28,       // all of these
  kThreads = 3u << 28,    // for the next kComeAndGo
  kComeAndGo = 4u << 28,  // so many connections on one VI of each thread, one after the other
  kAlive = 5u << 28,      // answered with how many of the accepted ones are still connected
  kEnd = 6u << 28,
};
inline constexpr std::uint32_t kNumberMask = (1u << 28) - 1;

// Discriminators: of the link, of other connections, and of those of thread t plus t.
inline constexpr std::uint32_t kControl = 0x5ca1e000;
inline constexpr std::uint32_t kOthers = 0x5ca1e001;
inline constexpr std::uint32_t kOfThread = 0x5ca1e100;

}  // namespace scale

#endif
