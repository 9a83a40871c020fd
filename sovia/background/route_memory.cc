#include "sovia/background/route_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia {
namespace {

constexpr std::size_t kServices = 64;  // that the file has room for; a further one replaces another

struct Record {
  std::uint64_t service;
  std::uint64_t until;
  std::uint64_t wait_ns;
  RouteMemory::Route route;
  std::uint32_t check;
};
static_assert(sizeof(Record) == 32);

using Records = std::array<Record, RouteMemory::kLoads>;

std::uint32_t check_of(const Record& record, unsigned load) {
  std::uint64_t sum = load + 1;
  for (const std::uint64_t each : {record.service, record.until, record.wait_ns, static_cast<std::uint64_t>(record.route)}) {
    sum = (sum ^ each) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return static_cast<std::uint32_t>(sum >> 32);
}

off_t place_of(std::uint64_t service) { return static_cast<off_t>(service % kServices * sizeof(Records)); }

// The file, if it is the user's own and nobody else's.
class File {
 public:
  File(const std::string& path, int flags) {
    const KeepErrno keep;
    constexpr int kSafe = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    const long opened = syscall(SYS_openat, AT_FDCWD, path.c_str(), flags | kSafe, S_IRUSR | S_IWUSR);
    if (opened < 0) return;
    fd_ = own_descriptors::adopt(static_cast<int>(opened));
    struct stat is {};
    safe_ = ::fstat(fd_, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == ::geteuid() && is.st_nlink == 1 &&
            (is.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  }
  ~File() {
    const KeepErrno keep;
    own_descriptors::close(fd_);
  }
  File(const File&) = delete;

  bool read(void* to, std::size_t bytes, off_t at) const {
    return safe_ && syscall(SYS_pread64, fd_, to, bytes, at) == static_cast<long>(bytes);
  }
  void write(const void* from, std::size_t bytes, off_t at) const {
    if (safe_) (void)syscall(SYS_pwrite64, fd_, from, bytes, at);
  }

 private:
  int fd_ = -1;
  bool safe_ = false;
};

Records read_records(const std::string& path, std::uint64_t service) {
  Records records{};
  if (path.empty()) return records;
  const KeepErrno keep;
  const File file(path, O_RDONLY);
  if (!file.read(records.data(), sizeof records, place_of(service))) return {};
  for (unsigned load = 0; load < RouteMemory::kLoads; ++load) {
    Record& each = records[load];
    if (each.service != service || each.check != check_of(each, load)) each = {};
  }
  return records;
}

}  // namespace

unsigned RouteMemory::load_of(std::size_t connections) {
  return std::min(static_cast<unsigned>(std::bit_width(connections)) / 2, kLoads - 1);
}

RouteMemory::Finding RouteMemory::recall(std::uint64_t service, unsigned load) const {
  const Record record = read_records(path_, service)[load];
  return {.route = record.route, .until = record.until, .wait_ns = record.wait_ns};
}

bool RouteMemory::doubts_lanes(std::uint64_t service, std::uint64_t now) const {
  const Records records = read_records(path_, service);
  return std::any_of(records.begin(), records.end(),
                     [now](const Record& each) { return each.route == Route::kKernel && now < each.until; });
}

// The file is written as a whole group, so that its end is never within one.
void RouteMemory::remember(std::uint64_t service, unsigned load, const Finding& finding) {
  if (path_.empty()) return;
  Records records = read_records(path_, service);
  Record& record = records[load];
  record = {.service = service, .until = finding.until, .wait_ns = finding.wait_ns, .route = finding.route, .check = 0};
  record.check = check_of(record, load);
  const KeepErrno keep;
  const File file(path_, O_RDWR | O_CREAT);
  file.write(records.data(), sizeof records, place_of(service));
}

}  // namespace viaduct::sovia
