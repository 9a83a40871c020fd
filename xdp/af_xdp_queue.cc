#include "xdp/af_xdp_queue.h"

#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "xdp/open_port.h"
#include "xdp/xsk_socket.h"

namespace viaduct {
namespace {

constexpr unsigned kBindTries = 40;  // the kernel gives a queue back late
constexpr unsigned kBindPauseUs = 25'000;

}  // namespace

AfXdpQueue::AfXdpQueue(const Options& options, PortCounters& counters)
    : options_(options),
      ifindex_(static_cast<int>(if_nametoindex(options.interface))),
      bytes_(std::size_t{options.chunk} * (options.receive + options.send)) {
  void* area = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (area == MAP_FAILED) {
    throw PortError(std::string(options.interface) + ": no memory for " +
                    std::to_string(bytes_ >> 20) + " MB of frames");
  }
  area_ = static_cast<std::byte*>(area);
  // As many chunks as there are entries in a ring are with the kernel, if there are enough; so
  // neither fill ring nor rx ring can be too short.
  const XskQueue::Shape shape{static_cast<std::uint32_t>(std::countr_zero(options.chunk)),
                              options.receive, options.send, options.ring, options.ring};
  lists_.resize(XskQueue::state_bytes(shape) / sizeof(std::uint32_t) + 1);
  queue_.set_up(shape, area_, lists_.data(), counters);
  const char* what = "";
  int error = 0;
  for (unsigned left = kBindTries;; --left) {
    error = open(what);
    if (error != EBUSY || left == 0) break;
    usleep(kBindPauseUs);
  }
  if (error != 0) {
    munmap(area_, bytes_);
    throw PortError(explain(what, error));
  }
}

AfXdpQueue::~AfXdpQueue() {
  close();
  munmap(area_, bytes_);
}

std::string AfXdpQueue::explain(const char* what, int error) const {
  std::string text = std::string(options_.interface) + ", queue " + std::to_string(options_.queue) +
                     ": " + what + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES) text += " (CAP_NET_RAW and CAP_NET_ADMIN needed)";
  if (error == EBUSY) text += " (another AF_XDP socket has the queue)";
  if (error == ENOBUFS) text += " (raise the limit of locked memory, ulimit -l)";
  return text;
}

// Returns 0, or an errno and what it belongs to; then there is no socket.
int AfXdpQueue::open(const char*& what) {
  const int fd = open_xsk_socket(
      {ifindex_, options_.queue, area_, bytes_, options_.chunk, options_.ring, options_.copy},
      what);
  if (fd < 0) return errno;
  if (const char* const failed = queue_.attach(fd)) {
    const int error = errno;
    ::close(fd);
    what = failed;
    return error;
  }
  return 0;
}

void AfXdpQueue::close() {
  const int fd = queue_.socket();
  queue_.detach();
  if (fd >= 0) ::close(fd);
}

bool AfXdpQueue::rebind(std::string& error) {
  close();
  const char* what = "";
  const int number = open(what);
  if (number != 0 && number != EBUSY) error = explain(what, number);
  return number == 0;
}

bool AfXdpQueue::zero_copy() const {
  xdp_options options{};
  socklen_t length = sizeof options;
  return getsockopt(descriptor(), SOL_XDP, XDP_OPTIONS, &options, &length) == 0 &&
         (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

}  // namespace viaduct
