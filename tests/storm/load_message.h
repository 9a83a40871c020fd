// The messages of verified loads, and the ledger in which programs count them; see load_tool.cc.
//
// A message says of which connection it is (a random number that the asker draws), which message of
// that it is, and how long; the rest follows from these. So what belongs to another connection, comes
// twice, out of order or changed is seen, and counted as wrong.
#ifndef VIADUCT_TESTS_STORM_LOAD_MESSAGE_H
#define VIADUCT_TESTS_STORM_LOAD_MESSAGE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

namespace load {

inline constexpr unsigned kWindow = 8;      // messages without an answer
inline constexpr std::uint32_t kBytes = 24 << 10;

struct Ledger {
  std::atomic<std::uint64_t> beats, connections, sent, sent_bytes, verified, verified_bytes, answered,
      wrong, failures, refused, opened, unanswered, reserved[4];
};
static_assert(sizeof(Ledger) == 128);

inline Ledger* ledger;
inline int own_slot;
inline int wrong_file = -1;

struct Head {
  std::uint64_t connection, number;
  std::uint32_t length, checksum;
};

inline std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

inline std::uint64_t draw() {
  std::uint64_t out = 0;
  while (getrandom(&out, sizeof out, 0) != sizeof out) continue;
  return out;
}

inline std::uint32_t length_of(std::uint64_t connection, std::uint64_t number) {
  const std::uint64_t r = mix(connection + number);
  const std::uint32_t most = r % 8 == 0 ? kBytes : r % 8 < 4 ? 3000 : 200;
  return static_cast<std::uint32_t>(sizeof(Head) + (r >> 8) % (most - sizeof(Head)));
}

inline std::uint32_t fill(unsigned char* data, std::uint64_t connection, std::uint64_t number) {
  const std::uint32_t length = length_of(connection, number);
  std::uint64_t state = mix(connection ^ number << 32);
  std::uint32_t sum = 0;
  for (std::uint32_t i = sizeof(Head); i < length; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(data + i, &state, std::min<std::size_t>(8, length - i));
    sum += static_cast<std::uint32_t>(state >> 32);
  }
  const Head head{connection, number, length, sum};
  std::memcpy(data, &head, sizeof head);
  return length;
}

// Counts a mistake, and tells of it in the file beside the ledger: what a rank of an MPI program prints may be lost when
// the program is aborted.
inline void wrong(const char* what, const Head& head, std::uint64_t connection, std::uint64_t number) {
  ++ledger->wrong;
  char line[256];
  const int length = std::snprintf(
      line, sizeof line, "slot %d: %s: connection %016llx number %llu length %u, expected %016llx number %llu\n", own_slot,
      what, static_cast<unsigned long long>(head.connection), static_cast<unsigned long long>(head.number), head.length,
      static_cast<unsigned long long>(connection), static_cast<unsigned long long>(number));
  if (write(wrong_file, line, static_cast<std::size_t>(length)) != length) std::perror("the file of mistakes");
}

// Prints why a connection has ended, and when, for the reader of a watcher's output that tells of a loss.
inline void tell(const char* what, int result, unsigned status) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("%lld.%03ld slot %d: %s, result %d, status %#x\n", static_cast<long long>(now.tv_sec), now.tv_nsec / 1'000'000,
              own_slot, what, result, status);
  std::fflush(stdout);
}

inline bool verify(const unsigned char* data, std::uint32_t bytes, const Head& head) {
  static unsigned char expected[kBytes];
  return fill(expected, head.connection, head.number) == bytes &&
         std::memcmp(expected, data, bytes) == 0;
}

// Maps the file, and takes this slot of it. False: it can't be.
inline bool open_ledger(const char* path, int slot) {
  const int file = open(path, O_RDWR);
  void* const map = mmap(nullptr, 64 * sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) return false;
  own_slot = slot % 64;
  wrong_file = open((std::string(path) + ".wrong").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  ledger = static_cast<Ledger*>(map) + own_slot;
  return true;
}

}  // namespace load

#endif
