#include "sovia/residue.h"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace viaduct::sovia {
namespace {

constexpr std::size_t kPage = 4096;

void* map_shared(std::size_t bytes) {
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

// Never freed: four bytes for a socket that has seen a fork.
Holders* make_holders() {
  static std::mutex lock;
  static Holders* page = nullptr;
  static std::size_t used = 0;
  const std::scoped_lock guard(lock);
  if (page == nullptr || used == kPage / sizeof(Holders)) {
    page = static_cast<Holders*>(map_shared(kPage));
    used = 0;
    if (page == nullptr) return nullptr;
  }
  Holders* const made = new (page + used++) Holders;
  made->count.store(1);
  return made;
}

Residue* make_residue(std::size_t bytes) {
  void* const at = map_shared(sizeof(Residue) + bytes);
  if (at == nullptr) return nullptr;
  auto* const residue = static_cast<Residue*>(at);
  residue->bytes = bytes;
  return residue;
}

void free_residue(Residue* residue) { munmap(residue, sizeof(Residue) + residue->bytes); }

std::size_t read_residue(Residue& residue, const iovec* pieces, std::size_t count,
                         std::size_t skip, bool peek) {
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < count; ++i) wanted += pieces[i].iov_len;
  wanted -= skip;
  std::uint64_t from = residue.at.load();
  std::uint64_t take;
  do {
    take = from < residue.bytes ? std::min<std::uint64_t>(wanted, residue.bytes - from) : 0;
  } while (!peek && take != 0 && !residue.at.compare_exchange_weak(from, from + take));
  const std::byte* data = residue.data() + from;
  std::uint64_t left = take;
  for (std::size_t i = 0; i < count && left != 0; ++i) {
    if (skip >= pieces[i].iov_len) {
      skip -= pieces[i].iov_len;
      continue;
    }
    const std::size_t here = std::min<std::uint64_t>(pieces[i].iov_len - skip, left);
    memcpy(static_cast<std::byte*>(pieces[i].iov_base) + skip, data, here);
    data += here;
    left -= here;
    skip = 0;
  }
  return take;
}

}  // namespace viaduct::sovia
