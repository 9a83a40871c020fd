// Options of the user, from the environment, read once. sovia(7) describes each variable; the table below is the only
// place where one is named.
#ifndef VIADUCT_SOVIA_PROCESS_OPTIONS_H
#define VIADUCT_SOVIA_PROCESS_OPTIONS_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// The thread that processes arrivals (column M of the paper's table 4).
enum class Handling : std::uint8_t {
  kSingle,   // the thread that waits for it (the default)
  kHandler,  // a thread of the library that waits on the completion queue
  kNotify,   // notify functions of VIPL
};

inline constexpr std::uint64_t kRegisterAll = 0;     // copy_limit of configuration REG
inline constexpr std::uint64_t kCopyAll = ~0ull;     // copy_limit of configuration COPY
inline constexpr std::uint64_t kHybridLimit = 2048;  // copy_limit of HYBRID, as in the paper
inline constexpr std::uint64_t kZcopyFrom = 16384;   // rendezvous of ZCOPY
inline constexpr std::uint64_t kPaperTimerUs = 100'000;  // the timer of COMBINE

// SOVIA_ROUTE
inline constexpr std::uint64_t kRouteAuto = 0, kRouteLane = 1, kRouteKernel = 2, kRoutePure = 3;

// X(member, variable, default, least, most, unit, description) Units: kFlag is 0 or 1; kBytes knows the suffixes k, M
// and G, and "all" for the greatest value; kRoute has names.
#define SOVIA_OPTIONS(X)                                                                         \
  X(lanes, "SOVIA_LANES", 1, 0, 1, kFlag, "open lanes; 0: everything goes through the kernel")   \
  X(route, "SOVIA_ROUTE", kRouteAuto, kRouteAuto, kRoutePure, kRoute,                               \
    "auto, lane, kernel or pure: where data goes; pure: on lanes from the first byte on")         \
  X(local, "SOVIA_LOCAL", 1, 0, 1, kFlag,                                                        \
    "open lanes to programs of the same host too")                                               \
  X(upgrade_after, "SOVIA_UPGRADE_AFTER", 4, 0, 1'000'000, kCount,                               \
    "sends and receives after which a connection is worth a lane")                           \
  X(upgrade_bytes, "SOVIA_UPGRADE_BYTES", 65536, 0, ~0ull, kBytes,                               \
    "bytes sent and received after which a connection is worth a lane")                           \
  X(udp, "SOVIA_UDP", 0, 0, 1, kFlag, "open lanes for UDP sockets too")                          \
  X(io_uring, "SOVIA_IO_URING", 0, 0, 1, kFlag,                                                  \
    "let the program have io_uring, for what is no connection with a lane")                       \
  X(window, "SOVIA_WINDOW", 32, 1, 256, kCount, "w: packets on the way to the peer at most")     \
  X(ack_threshold, "SOVIA_ACK_THRESHOLD", 16, 1, 256, kCount,                                    \
    "t: packets after which they are acknowledged; at most w")                                   \
  X(copy_limit, "SOVIA_COPY_LIMIT", ~0ull, 0, ~0ull, kBytes,                                      \
    "sends up to so many bytes are copied, longer ones registered")                              \
  X(vouch, "SOVIA_VOUCH", 1, 0, 1, kFlag,                                                        \
    "open a lane only if the peer's agent vouches for its end")                                  \
  X(combine, "SOVIA_COMBINE", 1, 0, 1, kFlag, "combine small sends unless TCP_NODELAY is set")   \
  X(combine_us, "SOVIA_COMBINE_US", 1000, 1, 1'000'000, kMicroseconds,                           \
    "how long a small send may wait for others")                                                 \
  X(combine_timer, "SOVIA_COMBINE_TIMER", 0, 0, 1, kFlag,                                        \
    "small sends wait for that time, 0: only while data is on its way")                          \
  X(strict_window, "SOVIA_STRICT_WINDOW", 0, 0, 1, kFlag,                                        \
    "sends that find the window closed wait, and packets count until they are read")             \
  X(join, "SOVIA_JOIN", 1, 0, 1, kFlag, "sends may join data that waits for credits")            \
  X(pack, "SOVIA_PACK", 1, 0, 1, kFlag, "packets may share a frame")                             \
  X(redirect, "SOVIA_REDIRECT", 1, 0, 1, kFlag,                                                  \
    "receives that wait get packets straight into their buffer")                                 \
  X(registration_cache, "SOVIA_REGISTRATION_CACHE", 1, 0, 1, kFlag,                              \
    "keep memory registered for the next send from there")                                       \
  X(messages, "SOVIA_MESSAGES", 0, 0, 1, kFlag,                                                  \
    "connections keep the boundaries of messages, as with SOVIA_MESSAGES of setsockopt")         \
  X(rendezvous, "SOVIA_RENDEZVOUS", ~0ull, 1, ~0ull, kBytes,                                      \
    "messages of so many bytes and more are written to the receiver's buffer")                   \
  X(spin_us, "SOVIA_SPIN_US", 200, 0, 1'000'000, kMicroseconds,                                   \
    "how long to look for data before sleeping, at most")                                                 \
  X(stats, "SOVIA_STATS", 0, 0, 1, kFlag, "tell on stderr, at the end, what went past the kernel")

struct Options {
#define SOVIA_OPTION(member, variable, value, least, most, unit, text) std::uint64_t member = value;
  SOVIA_OPTIONS(SOVIA_OPTION)
#undef SOVIA_OPTION
  // SOVIA_CONFIG=NAME, a configuration of the papers, sets several of the options above, except those that have been
  // set by their own variables.
  Handling handling = Handling::kSingle;
  const char* config = "";  // the row's name
};

// Copies the variables of the environment that are for this library and for VIPL, once. To be called when the library is
// loaded: later another thread may be changing the environment.
void keep_environment();

// The options, read from the kept environment at the first call. Invalid values are reported on standard error and not
// used.
const Options& options();

// A kept variable's value, or nullptr. The text lives as long as the process.
const char* kept_variable(const char* variable);

// For tests: reads `environment(variable)`; `complain` gets each message, without a new line.
Options read_options(const char* (*environment)(const char* variable),
                     void (*complain)(const char* message));

// Writes a line to stderr, if descriptor 2 is still the file that it was when the library was loaded, and no socket.
void tell_on_stderr(const char* message);

// SOVIA_DEBUG=1 (stderr) or =FILE (appended to) shows what happens to connections. Costs a load and
// a branch when off. Keeps errno.
extern bool g_debugging;
[[gnu::format(printf, 1, 2)]] void write_debug(const char* format, ...);
#define SOVIA_LOG(...)                                                            \
  do {                                                                            \
    if (::viaduct::sovia::g_debugging) ::viaduct::sovia::write_debug(__VA_ARGS__); \
  } while (false)

}  // namespace viaduct::sovia

#endif
