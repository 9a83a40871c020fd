#include "xdp/null_port.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace viaduct {
namespace {

constexpr std::size_t kEthernet = 14;

}  // namespace

NullPort::NullPort(const MacAddress& address, std::uint32_t mtu)
    : address_(address),
      mtu_(mtu),
      stride_((mtu + kEthernet + 63) & ~std::size_t{63}),
      never_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (never_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  for (std::uint32_t i = kBuffers; i-- > 0;) free_.push_back(i);
}

NullPort::~NullPort() { close(never_); }

std::size_t NullPort::reserve(std::span<Frame> frames) {
  if (memory_.empty()) memory_.resize(stride_ * kBuffers);
  const std::size_t n = std::min(frames.size(), free_.size());
  for (Frame& frame : frames.first(n)) {
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    frame = {&memory_[buffer * stride_], static_cast<std::uint32_t>(mtu_ + kEthernet), buffer};
  }
  return n;
}

void NullPort::cancel(std::span<const Frame> frames) {
  for (const Frame& frame : frames) free_.push_back(frame.id);
}

}  // namespace viaduct
