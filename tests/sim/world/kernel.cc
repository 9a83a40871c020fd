#include "tests/sim/world/kernel.h"

#include <sys/mman.h>

#include <algorithm>

#include "tests/sim/world/failure.h"

namespace viaduct::sim {
namespace {

constexpr std::size_t kPage = 4096;

// The next memory file's place. Each world begins at the same one: libvipl finds what it has learnt of a word by the
// word's address, and a seed is to be the same run whatever ran before.
constexpr std::uint64_t kFirstFile = 0x300000000000, kApart = std::uint64_t{1} << 28;
std::uint64_t g_next_file = kFirstFile;

// The library is not used outside of worlds, but at the end of the process it looks at the clock.
bool may_run_none(const void*) { return false; }

void let_go(File& file) {
  if (auto* const socket = dynamic_cast<SocketFile*>(&file)) socket->shut = true;
  if (auto* const port = dynamic_cast<PortFile*>(&file)) port->dead = true;
}

}  // namespace

Kernel& Kernel::the() {
  static Kernel& kernel = *new Kernel;
  return kernel;
}

// ---------------------------------------------------------------------------- memory

MemoryFile::MemoryFile(std::size_t size) : bytes(size) {
  if (size > kApart) fail("a memory file of %zu bytes", size);
  // Pages of threads' records outlive the world.
  const bool kept = size == kPage;
  void* const wanted = kept ? nullptr : reinterpret_cast<void*>(g_next_file);
  if (!kept) g_next_file += kApart;
  void* const got = mmap(wanted, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (kept ? 0 : MAP_FIXED_NOREPLACE), -1, 0);
  if (got == MAP_FAILED) fail("no memory for %zu bytes", size);
  base = static_cast<std::byte*>(got);
}

void Kernel::begin(Outside& world) {
  outside_ = &world;
  g_next_file = kFirstFile;
}

MemoryFile::~MemoryFile() { munmap(base, bytes); }

void* Kernel::map(std::size_t bytes, int fd) {
  const std::shared_ptr<MemoryFile> memory =
      fd < 0 ? std::make_shared<MemoryFile>(bytes) : file<MemoryFile>(fd);
  if (memory == nullptr || memory->bytes < bytes) fail("a map of what is no memory");
  if (fd < 0 && bytes == kPage) ++kept_maps_;
  Map& map = maps_[memory->base];
  map.file = memory;
  ++map.times;
  return memory->base;
}

void Kernel::unmap(void* at, std::size_t bytes) {
  const auto found = maps_.find(at);
  if (found == maps_.end() || found->second.file->bytes < bytes) {
    fail("the library unmaps what is not mapped");
  }
  if (--found->second.times == 0) maps_.erase(found);
}

// ---------------------------------------------------------------------------- descriptors

int Kernel::install(std::shared_ptr<File> file) {
  const Fiber* const fiber = fibers.current();
  file->owner = fiber != nullptr ? fiber->owner : nullptr;
  // No number comes twice, so that a late use of an old one is seen.
  files_[++last_fd_] = std::move(file);
  return last_fd_;
}

void Kernel::close(int fd) {
  const auto found = files_.find(fd);
  if (found == files_.end()) fail("the library closes descriptor %d, which is not open", fd);
  if (found->second != nullptr) let_go(*found->second);
  files_.erase(found);
}

void Kernel::close_all(const void* owner) {
  for (auto& [fd, file] : files_) {
    if (file == nullptr || file->owner != owner || dynamic_cast<EventFile*>(file.get()) != nullptr) {
      continue;
    }
    let_go(*file);
    file = nullptr;  // the library of the dead still has the number
  }
}

std::size_t Kernel::files() const {
  return static_cast<std::size_t>(std::count_if(files_.begin(), files_.end(), [](const auto& each) {
    return each.second != nullptr && dynamic_cast<EventFile*>(each.second.get()) == nullptr;
  }));
}

bool Kernel::is_ready(const pollfd& polled) const {
  if (polled.fd < 0) return false;
  const auto found = files_.find(polled.fd);
  if (found == files_.end()) return true;
  if (found->second == nullptr) return false;  // of the dead
  return (found->second->ready() & (polled.events | POLLHUP | POLLERR)) != 0;
}

// ---------------------------------------------------------------------------- running

bool Kernel::run() {
  if (outside_ == nullptr) return false;
  return fibers.run(
      outside_->now(), [this](const void* owner) { return outside_->may_run(owner); },
      [this](const pollfd& polled) { return is_ready(polled); });
}

std::uint64_t Kernel::next() const {
  if (outside_ == nullptr) return fibers.next(0, may_run_none);
  return fibers.next(outside_->now(),
                     [this](const void* owner) { return outside_->may_run(owner); });
}

void Kernel::take_time() {
  constexpr unsigned kCalls = 256;
  Fiber* const fiber = fibers.current();
  if (fiber == nullptr || outside_ == nullptr || ++fiber->calls < kCalls) return;
  fibers.suspend(Fiber::State::kPreempted, outside_->now() + kUs);
}

void Kernel::may_stop() {
  take_time();
  const Fiber* const fiber = fibers.current();
  if (fiber == nullptr || outside_ == nullptr) return;
  Random& random = outside_->random_of(fiber->owner);
  if (!random.chance(outside_->preemption())) return;
  const std::uint64_t ns = random.chance(0.7) ? 0 : random.magnitude(100, 200 * kUs);
  fibers.suspend(Fiber::State::kPreempted, outside_->now() + ns);
}

bool Kernel::wait(const void* word, std::uint64_t deadline) {
  Fiber& fiber = *fibers.current();
  fiber.word = word;
  fibers.suspend(Fiber::State::kOnWord, deadline);
  return fiber.woken;
}

void Kernel::sleep(std::uint64_t ns) { wait(nullptr, outside_->now() + ns); }

}  // namespace viaduct::sim
