#include "sovia/socket/inherited_bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/units.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint64_t kMagic = 0x3575646973657253;  // "Sresidu5": changes with the layout
constexpr int kMostFiles = 64;  // the unread bytes of further connections get no file

constinit std::atomic<int> g_files{0};

void* map_shared(std::size_t bytes, int file = -1) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}

// A descriptor of the library's own for a file that keeps its size; -1: there is none.
int make_file(std::size_t size) {
  const int file = memfd_create("sovia", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  if (ftruncate(file, static_cast<off_t>(size)) != 0 ||
      libc::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    libc::close(file);
    return -1;
  }
  return own_descriptors::adopt(file);
}

std::uint64_t inode_of(int file) {
  struct stat about;
  return fstat(file, &about) == 0 ? about.st_ino : 0;
}

}  // namespace

struct InheritedBytes::Shared {
  std::uint64_t magic;
  std::atomic<std::uint64_t> at;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> socket;

  ResumeRecord record;

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
};

// Operations on the shared memory and the files of InheritedBytes.
class InheritedFiles {
 public:
  static InheritedBytes* make(std::size_t room, bool with_file) {
    const std::size_t size = sizeof(InheritedBytes::Shared) + room;
    const int file = with_file ? make_file(size) : -1;
    if (with_file && file < 0) return nullptr;
    InheritedBytes* const inherited_bytes = wrap(map_shared(size, file), room);
    if (inherited_bytes == nullptr) {
      own_descriptors::close(file);
      return nullptr;
    }
    InheritedBytes::Shared& shared = *inherited_bytes->shared_;
    shared.magic = kMagic;
    shared.bytes.store(room);
    if (file >= 0) take_file(*inherited_bytes, file);
    return inherited_bytes;
  }

  // Maps a file that another process has made.
  static InheritedBytes* map_file(int file) {
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size < static_cast<off_t>(sizeof(InheritedBytes::Shared))) {
      return nullptr;
    }
    // Only sealed files are mapped, as this library makes them: another file could shrink while it is mapped.
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
    const int seals = libc::fcntl(file, F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals) return nullptr;
    const auto size = static_cast<std::size_t>(about.st_size);
    InheritedBytes* const inherited_bytes = wrap(map_shared(size, file), size - sizeof(InheritedBytes::Shared));
    if (inherited_bytes == nullptr || inherited_bytes->shared_->magic == kMagic) return inherited_bytes;
    unmap(inherited_bytes);
    return nullptr;
  }

  static void take_file(InheritedBytes& inherited_bytes, int file) {
    inherited_bytes.file_ = file;
    inherited_bytes.inode_ = inode_of(file);
    g_files.fetch_add(1);
  }

  // -1: it has none, or the program has closed it without the library.
  static int file_of(const InheritedBytes& inherited_bytes) {
    const bool is_there = inherited_bytes.file_ >= 0 && own_descriptors::has(inherited_bytes.file_) &&
                          inode_of(inherited_bytes.file_) == inherited_bytes.inode_;
    return is_there ? inherited_bytes.file_ : -1;
  }

  static void unmap(InheritedBytes* inherited_bytes) {
    munmap(inherited_bytes->shared_, sizeof(InheritedBytes::Shared) + inherited_bytes->room_);
    delete inherited_bytes;
  }

 private:
  // Makes an object that owns the memory; frees the memory if that fails.
  static InheritedBytes* wrap(void* at, std::size_t room) {
    if (at == nullptr) return nullptr;
    auto* const shared = static_cast<InheritedBytes::Shared*>(at);
    InheritedBytes* const inherited_bytes = new (std::nothrow) InheritedBytes(shared, room);
    if (inherited_bytes == nullptr) munmap(at, sizeof(InheritedBytes::Shared) + room);
    return inherited_bytes;
  }
};

std::byte* InheritedBytes::data() { return shared_->data(); }
void InheritedBytes::set_bytes(std::size_t bytes) { shared_->bytes.store(bytes); }
void InheritedBytes::set_socket(std::uint64_t inode) { shared_->socket.store(inode); }
std::uint64_t InheritedBytes::socket() const { return shared_->socket.load(); }
ResumeRecord& InheritedBytes::record() { return shared_->record; }

std::size_t InheritedBytes::end() const {
  return std::min<std::uint64_t>(shared_->bytes.load(), room_);
}

std::size_t InheritedBytes::left() const {
  const std::uint64_t taken = shared_->at.load();
  const std::size_t all = end();
  return taken < all ? all - taken : 0;
}

// Holders are never freed: a socket that has seen a fork costs twelve bytes.
Holders* make_holders() {
  static Mutex lock;
  static Holders* page = nullptr;
  static std::size_t used = 0;
  const LockGuard guard(lock);
  if (page == nullptr || used == kPage / sizeof(Holders)) {
    page = static_cast<Holders*>(map_shared(kPage));
    used = 0;
    if (page == nullptr) return nullptr;
  }
  Holders* const made = new (page + used++) Holders;
  made->count.store(1);
  return made;
}

InheritedBytes* make_inherited_bytes(std::size_t bytes) {
  InheritedBytes* const inherited_bytes = InheritedFiles::make(bytes, g_files.load() < kMostFiles);
  return inherited_bytes != nullptr ? inherited_bytes : InheritedFiles::make(bytes, false);
}

void free_inherited_bytes(InheritedBytes* inherited_bytes) {
  if (const int file = InheritedFiles::file_of(*inherited_bytes); file >= 0) {
    own_descriptors::close(file);
    g_files.fetch_sub(1);
  }
  InheritedFiles::unmap(inherited_bytes);
}

// Moves the unread bytes and the record. `to` has room for them.
static void move_rest(InheritedBytes& from, InheritedBytes& to) {
  const iovec all{to.data(), to.room()};
  to.set_bytes(read_inherited_bytes(from, &all, 1, 0, false));
  from.record().move_to(to.record());
}

int file_of(InheritedBytes*& inherited_bytes) {
  if (const int file = InheritedFiles::file_of(*inherited_bytes); file >= 0) return file;
  InheritedBytes* const copy = InheritedFiles::make(inherited_bytes->left(), true);
  if (copy == nullptr) return -1;
  move_rest(*inherited_bytes, *copy);
  free_inherited_bytes(std::exchange(inherited_bytes, copy));
  return InheritedFiles::file_of(*copy);
}

InheritedBytes* inherited_bytes_of(int file, std::uint64_t socket) {
  InheritedBytes* const inherited_bytes = InheritedFiles::map_file(file);
  if (inherited_bytes == nullptr) return nullptr;
  if (inherited_bytes->socket() != socket) {
    InheritedFiles::unmap(inherited_bytes);
    return nullptr;
  }
  own_descriptors::mark(file);
  InheritedFiles::take_file(*inherited_bytes, file);
  return inherited_bytes;
}

bool is_inherited_bytes(int file) {
  InheritedBytes* const inherited_bytes = InheritedFiles::map_file(file);
  if (inherited_bytes != nullptr) InheritedFiles::unmap(inherited_bytes);
  return inherited_bytes != nullptr;
}

InheritedBytes* passed_inherited_bytes(int file, std::uint64_t& socket) {
  InheritedBytes* const inherited_bytes = InheritedFiles::map_file(file);
  socket = inherited_bytes != nullptr ? inherited_bytes->socket() : 0;
  if (inherited_bytes == nullptr) return nullptr;
  // With a descriptor of its own this process can pass the bytes on without taking them from the others.
  const int own = own_descriptors::adopt(libc::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (own >= 0) InheritedFiles::take_file(*inherited_bytes, own);
  return inherited_bytes;
}

std::size_t read_inherited_bytes(InheritedBytes& inherited_bytes, const iovec* pieces, std::size_t count,
                         std::size_t skip, bool peek) {
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < count; ++i) wanted += pieces[i].iov_len;
  wanted -= skip;
  const std::size_t end = inherited_bytes.end();
  std::atomic<std::uint64_t>& at = inherited_bytes.shared_->at;
  std::uint64_t from = at.load();
  std::size_t take;
  do {
    take = from < end ? std::min<std::size_t>(wanted, end - from) : 0;
  } while (!peek && take != 0 && !at.compare_exchange_weak(from, from + take));
  const std::byte* data = inherited_bytes.data() + (take != 0 ? from : 0);
  std::size_t left = take;
  for (std::size_t i = 0; i < count && left != 0; ++i) {
    if (skip >= pieces[i].iov_len) {
      skip -= pieces[i].iov_len;
      continue;
    }
    const std::size_t here = std::min(pieces[i].iov_len - skip, left);
    memcpy(static_cast<std::byte*>(pieces[i].iov_base) + skip, data, here);
    data += here;
    left -= here;
    skip = 0;
  }
  return take;
}

}  // namespace viaduct::sovia
