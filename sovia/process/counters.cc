#include "sovia/process/counters.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "sovia/process/libc.h"
#include "sovia/process/once.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia::counters {

constinit Page g_page{};

namespace {

enum class State : int { kPrivate, kPublishing, kPublished };

constinit std::atomic<State> g_state{State::kPrivate};
constinit int g_descriptor = -1;

struct Row {
  const char* name;
  const char* text;
};

constexpr Row kRows[] = {
#define SOVIA_COUNTER(name, shown, text) {shown, text},
    SOVIA_COUNTERS(SOVIA_COUNTER)
#undef SOVIA_COUNTER
};

constexpr const char* kReasonNames[] = {
#define SOVIA_REASON(name, text) #name,
    SOVIA_REASONS(SOVIA_REASON)
#undef SOVIA_REASON
};

constexpr std::uint64_t hash(const char* text, std::uint64_t seed) {
  for (; *text != '\0'; ++text) seed = (seed ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  return (seed ^ 0xff) * 0x100000001b3;
}

constexpr std::uint64_t hash_of_names() {
  std::uint64_t seed = 0xcbf29ce484222325;
  for (const Row& row : kRows) seed = hash(row.name, seed);
  for (const char* name : kReasonNames) seed = hash(name, seed);
  return seed;
}

void fill_header() {
  g_page.counters = kCounters;
  g_page.reasons = kReasons;
  g_page.fingerprint = hash_of_names();
  g_page.process = static_cast<std::int32_t>(getpid());
  g_page.magic = kMagic;
}

// Turns the page's memory into the file's. Counts made between the write and the mapping are lost.
int make_file() {
  if (own_descriptors::scarce()) return -1;
  const int fd = static_cast<int>(syscall(SYS_memfd_create, kName, MFD_CLOEXEC));
  if (fd < 0) return -1;
  const bool written = syscall(SYS_ftruncate, fd, sizeof g_page) == 0 &&
                       syscall(SYS_pwrite64, fd, &g_page, sizeof g_page, 0) == sizeof g_page;
  if (!written || mmap(&g_page, sizeof g_page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
                      MAP_FAILED) {
    libc::close(fd);
    return -1;
  }
  return own_descriptors::adopt(fd);
}

}  // namespace

void publish() {
  if (g_state.load(std::memory_order_acquire) != State::kPrivate) return;
  State expected = State::kPrivate;
  if (!g_state.compare_exchange_strong(expected, State::kPublishing)) return;
  const int saved = errno;
  fill_header();
  g_descriptor = make_file();  // without it, counting goes on in private memory
  errno = saved;
  g_state.store(State::kPublished, std::memory_order_release);
}

void after_fork_in_child() {
  if (g_state.load() == State::kPrivate) {
    for (auto& value : g_page.values) value = 0;
    for (auto& value : g_page.falls) value = 0;
    for (auto& row : g_page.sockets) row = 0;
    return;
  }
  const int saved = errno;
  mmap(&g_page, sizeof g_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  own_descriptors::close(g_descriptor);
  g_descriptor = -1;
  g_state.store(State::kPrivate);
  errno = saved;
}

int descriptor() { return g_descriptor; }

void forget_descriptor() {
  own_descriptors::release(g_descriptor);
  g_descriptor = -1;
}

const char* name_of(Counter counter) { return kRows[static_cast<std::size_t>(counter)].name; }

const char* text_of(Counter counter) { return kRows[static_cast<std::size_t>(counter)].text; }

const char* name_of(Reason reason) {
  using Names = char[kReasons][24];
  const Names& all = once([]() -> const Names& {
    static Names names;
    for (std::size_t i = 0; i < kReasons; ++i) {
      const char* from = kReasonNames[i] + 1;
      char* to = names[i];
      // kOffLink: off_link
      for (; *from != '\0' && to < names[i] + sizeof names[i] - 2; ++from) {
        const bool capital = *from >= 'A' && *from <= 'Z';
        if (capital && to != names[i]) *to++ = '_';
        *to++ = capital ? static_cast<char>(*from + ('a' - 'A')) : *from;
      }
      *to = '\0';
    }
    return names;
  });
  return all[static_cast<std::size_t>(reason)];
}

std::uint64_t fingerprint() { return hash_of_names(); }

}  // namespace viaduct::sovia::counters
