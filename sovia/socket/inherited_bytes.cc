#include "sovia/socket/inherited_bytes.h"

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "sovia/lane/packet.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/units.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint64_t kMagic = 0x3475646973657253;  // "Sresidu4": changes with the layout
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

  // --- the record
  enum Record : std::uint32_t { kNone, kCertain, kPossible, kSkipping };
  std::atomic<std::uint32_t> record;
  std::atomic<std::int32_t> taker;  // the process that is taking the record
  std::uint8_t token[kTokenBytes];
  std::atomic<std::uint64_t> received, skip;
  std::atomic<bool> closes, complete;

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

std::size_t InheritedBytes::end() const {
  return std::min<std::uint64_t>(shared_->bytes.load(), room_);
}

std::size_t InheritedBytes::left() const {
  const std::uint64_t taken = shared_->at.load();
  const std::size_t all = end();
  return taken < all ? all - taken : 0;
}

// ---------------------------------------------------------------------------- the record

void InheritedBytes::expect_record(const std::uint8_t* token, std::uint64_t received, bool certain,
                                   bool complete) {
  std::reverse_copy(token, token + kTokenBytes, shared_->token);
  shared_->complete.store(complete);
  shared_->received.store(received);
  shared_->record.store(certain ? Shared::kCertain : Shared::kPossible);
}

bool InheritedBytes::expects_record() const { return shared_->record.load() != Shared::kNone; }

bool InheritedBytes::is_record_certain() const {
  const std::uint32_t record = shared_->record.load();
  return record == Shared::kCertain || record == Shared::kSkipping;
}

bool InheritedBytes::peer_closes() const { return shared_->closes.load(); }

void InheritedBytes::move_record(InheritedBytes& to) {
  to.shared_->received.store(shared_->received.load());
  to.shared_->skip.store(shared_->skip.load());
  to.shared_->complete.store(shared_->complete.load());
  memcpy(to.shared_->token, shared_->token, kTokenBytes);
  to.shared_->record.store(shared_->record.exchange(Shared::kNone));
}

// The processes that share the record take it one at a time. A process that died while taking it does not block the
// others.
InheritedBytes::Take InheritedBytes::take_record(int fd, std::uint64_t& taken) {
  const auto self = static_cast<std::int32_t>(getpid());
  std::int32_t before = 0;
  if (!shared_->taker.compare_exchange_strong(before, self)) {
    if (kill(before, 0) == 0 || errno != ESRCH ||
        !shared_->taker.compare_exchange_strong(before, self)) {
      return Take::kAgain;
    }
  }
  const Take result = take_record_alone(fd, taken);
  shared_->taker.store(0);
  return result;
}

InheritedBytes::Take InheritedBytes::take_record_alone(int fd, std::uint64_t& taken) {
  const auto again = [] { return errno == EAGAIN || errno == EINTR; };
  // Asked first, as the end may come at any time.
  const bool more = may_get_more(fd);
  const std::uint32_t record = shared_->record.load();
  if (record == Shared::kCertain || record == Shared::kPossible) {
    Resume resume;
    const ssize_t got = libc::recv(fd, &resume, sizeof resume, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0) return again() ? Take::kAgain : Take::kReset;
    if (got == 0 && more) return Take::kAgain;
    if (got == 0 && record == Shared::kCertain) {
      // The peer was killed, as it would have sent a record. That is a reset unless its data was complete.
      if (!shared_->complete.load()) return Take::kReset;
      shared_->record.store(Shared::kNone);
      return Take::kEnded;
    }
    const std::size_t compared = std::min(static_cast<std::size_t>(got), kTokenBytes);
    const bool there = got != 0 && memcmp(resume.token, shared_->token, compared) == 0;
    // Without a record: if one was certain, the sender did not know that START had come, and resends the lane's stream
    // from offset 0. Otherwise it knows that FIN has come, and sends new bytes.
    std::uint64_t offset = record == Shared::kCertain ? 0 : shared_->received.load();
    if (there) {
      if (static_cast<std::size_t>(got) < sizeof resume) return Take::kAgain;
      libc::recv(fd, &resume, sizeof resume, MSG_DONTWAIT);
      taken += sizeof resume;
      offset = be64toh(resume.offset);
      shared_->closes.store(resume.closes != 0);
    }
    const std::uint64_t received = shared_->received.load();
    if (offset > received) return Take::kReset;
    shared_->skip.store(received - offset);
    shared_->record.store(Shared::kSkipping);
  }
  while (const std::uint64_t skip = shared_->skip.load()) {
    constexpr std::uint64_t kMost = 1 << 20;
    const ssize_t got =
        libc::recv(fd, nullptr, std::min(skip, kMost), MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0) return again() ? Take::kAgain : Take::kReset;
    if (got == 0) return more ? Take::kAgain : Take::kReset;
    taken += static_cast<std::uint64_t>(got);
    shared_->skip.store(skip - static_cast<std::uint64_t>(got));
  }
  shared_->record.store(Shared::kNone);
  return Take::kDone;
}

// Holders are never freed: a socket that has seen a fork costs twelve bytes.
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

InheritedBytes* make_record() { return InheritedFiles::make(0, false); }

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
  from.move_record(to);
}

int file_of(InheritedBytes*& inherited_bytes) {
  if (const int file = InheritedFiles::file_of(*inherited_bytes); file >= 0) return file;
  InheritedBytes* const copy = InheritedFiles::make(inherited_bytes->left(), true);
  if (copy == nullptr) return -1;
  move_rest(*inherited_bytes, *copy);
  free_inherited_bytes(inherited_bytes);
  inherited_bytes = copy;
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
