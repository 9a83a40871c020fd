#include "sovia/residue.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "sovia/kernel.h"
#include "sovia/own_descriptors.h"

namespace viaduct::sovia {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kMagic = 0x6575646973657253;  // "Sresidue"
constexpr int kMostFiles = 64;  // a server with more unread connections forks without

constinit std::atomic<int> g_files{0};

void* map_shared(std::size_t bytes, int file = -1) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}

// Whether its descriptor is still what it was: the program may have closed it behind our back.
bool has_file(const Residue& residue) {
  struct stat about;
  return residue.file >= 0 && own_descriptors::has(residue.file) &&
         fstat(residue.file, &about) == 0 && about.st_ino == residue.inode;
}

Residue* make(std::size_t bytes, bool with_file) {
  const std::size_t size = sizeof(Residue) + bytes;
  int file = -1;
  struct stat about{};
  if (with_file) {
    file = memfd_create("sovia", MFD_CLOEXEC);
    if (file < 0) return nullptr;
    if (ftruncate(file, static_cast<off_t>(size)) != 0 || fstat(file, &about) != 0) {
      kernel::close(file);
      return nullptr;
    }
    file = own_descriptors::adopt(file);
  }
  void* const at = map_shared(size, file);
  if (at == nullptr) {
    if (file >= 0) own_descriptors::release(file);
    if (file >= 0) kernel::close(file);
    return nullptr;
  }
  if (file >= 0) g_files.fetch_add(1);
  auto* const residue = static_cast<Residue*>(at);
  residue->magic = kMagic;
  residue->bytes = residue->room = bytes;
  residue->inode = about.st_ino;
  residue->file = file;
  return residue;
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
  Residue* const residue = make(bytes, g_files.load() < kMostFiles);
  return residue != nullptr ? residue : make(bytes, false);
}

void free_residue(Residue* residue) {
  if (has_file(*residue)) {
    own_descriptors::release(residue->file);
    kernel::close(residue->file);
    g_files.fetch_sub(1);
  }
  munmap(residue, sizeof(Residue) + residue->room);
}

int file_of(Residue*& residue) {
  if (has_file(*residue)) return residue->file;
  Residue* const copy = make(residue->left(), true);
  if (copy == nullptr) return -1;
  const iovec all{copy->data(), copy->bytes};
  copy->bytes = read_residue(*residue, &all, 1, 0, false);
  free_residue(residue);
  residue = copy;
  return copy->file;
}

Residue* residue_of(int file) {
  struct stat about;
  if (fstat(file, &about) != 0 || about.st_size < static_cast<off_t>(sizeof(Residue))) return nullptr;
  const auto size = static_cast<std::size_t>(about.st_size);
  void* const at = map_shared(size, file);
  if (at == nullptr) return nullptr;
  auto* const residue = static_cast<Residue*>(at);
  if (residue->magic != kMagic || residue->file != file || residue->inode != about.st_ino ||
      residue->room != size - sizeof(Residue) || residue->bytes > residue->room) {
    munmap(at, size);
    return nullptr;
  }
  own_descriptors::mark(file);
  g_files.fetch_add(1);
  return residue;
}

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
