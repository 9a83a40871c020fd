#include "xdp/xsk/af_xdp_queue.h"

#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "xdp/xsk/chunk.h"
#include "xdp/port_error.h"
#include "xdp/xsk/xsk_socket.h"

namespace viaduct {
namespace {

constexpr unsigned kBindTries = 40;  // the kernel gives a queue back late
constexpr unsigned kBindPauseUs = 25'000;

void* map_memory(std::size_t bytes, int flags) {
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

AfXdpQueue::AfXdpQueue(const Options& options, PortCounters& counters)
    : options_(options),
      ifindex_(static_cast<int>(if_nametoindex(options.interface))),
      bytes_(std::size_t{options.chunk} * (options.receive + options.send)) {
  // As many chunks as there are entries in a ring are with the kernel, if there are enough; so
  // neither fill ring nor rx ring can be too short.
  XskQueue::Shape shape{static_cast<std::uint32_t>(std::countr_zero(options.chunk)),
                        options.receive, options.send, options.ring, options.ring};
  if (options.mtu != 0) {
    shape.take_several_chunks(parts_for(options.mtu, options.chunk), options.mtu,
                              lendable(options.receive, options.ring));
  }
  assembly_bytes_ = XskQueue::assembly_bytes(shape);
  area_ = static_cast<std::byte*>(map_memory(bytes_, MAP_SHARED | MAP_POPULATE));
  if (assembly_bytes_ != 0) {
    assembly_ =
        static_cast<std::byte*>(map_memory(assembly_bytes_, MAP_PRIVATE | MAP_NORESERVE));
  }
  if (area_ == nullptr || (assembly_bytes_ != 0 && assembly_ == nullptr)) {
    unmap();
    throw PortError(std::string(options.interface) + ": no memory for " +
                    std::to_string((bytes_ + assembly_bytes_) >> 20) + " MB of frames");
  }
  lists_.resize(XskQueue::state_bytes(shape) / sizeof(std::uint32_t) + 1);
  queue_.set_up(shape, area_, assembly_, lists_.data(), counters);
  const char* what = "";
  int error = 0;
  for (unsigned left = kBindTries;; --left) {
    error = open(what);
    if (error != EBUSY || left == 0) break;
    usleep(kBindPauseUs);
  }
  if (error != 0) {
    unmap();
    if (options.mtu != 0 && refuses_parts(error)) throw PartsRefused(explain(what, error));
    throw PortError(explain(what, error));
  }
}

AfXdpQueue::~AfXdpQueue() {
  close();
  unmap();
}

void AfXdpQueue::unmap() {
  if (area_ != nullptr) munmap(area_, bytes_);
  if (assembly_ != nullptr) munmap(assembly_, assembly_bytes_);
}

std::string AfXdpQueue::explain(const char* what, int error) const {
  std::string text = std::string(options_.interface) + ", queue " + std::to_string(options_.queue) +
                     ": " + what + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES) text += " (CAP_NET_RAW and CAP_NET_ADMIN needed)";
  if (error == EBUSY) text += " (another AF_XDP socket has the queue)";
  if (error == ENOBUFS) text += " (raise the limit of locked memory, ulimit -l)";
  return text;
}

// Returns 0, or an errno and, in `what`, what failed; then there is no socket.
int AfXdpQueue::open(const char*& what) {
  const int fd = open_xsk_socket(
      {ifindex_, options_.queue, area_, bytes_, options_.chunk, options_.ring, options_.copy,
       options_.mtu != 0},
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
