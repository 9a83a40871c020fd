#include "xdp/train/train_pages.h"

#include <netinet/udp.h>

#include <cstring>

#include "xdp/xsk/system_calls.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace viaduct {
namespace {

// In earlier kernels each page became a datagram.
constexpr unsigned kMajor = 6, kMinor = 5;

}  // namespace

void TrainPages::open(const int (&pipe)[2]) {
  close();
  pipe_[0] = pipe[0], pipe_[1] = pipe[1];
  if (pipe_[0] < 0 || pipe_[1] < 0 || !system_calls::kernel_is_from(kMajor, kMinor)) close();
}

void TrainPages::close() {
  renew();
  for (int& end : pipe_) {
    if (end >= 0) system_calls::close(end);
    end = -1;
  }
}

void TrainPages::renew() {
  if (memory_ != nullptr) system_calls::unmap(memory_, kTrain * kTrains);
  memory_ = nullptr;
  segment_ = 0;
}

std::byte* TrainPages::gathered(std::span<const iovec> pieces, std::size_t& bytes) {
  if (memory_ == nullptr) {
    memory_ = static_cast<std::byte*>(system_calls::map_untouched(kTrain * kTrains));
    if (memory_ == nullptr) return nullptr;
  }
  std::byte* const data = memory_ + kTrain * (next_++ % kTrains);
  bytes = 0;
  for (const iovec& piece : pieces) {
    std::memcpy(data + bytes, piece.iov_base, piece.iov_len);
    bytes += piece.iov_len;
  }
  return data;
}

bool TrainPages::send(int socket, std::span<const iovec> pieces, std::uint16_t segment) {
  if (!can()) return false;
  if (segment_ != segment) {
    if (system_calls::setsockopt(socket, IPPROTO_UDP, UDP_SEGMENT, segment) != 0) return false;
    segment_ = segment;
  }
  std::size_t bytes;
  std::byte* const data = gathered(pieces, bytes);
  return data != nullptr && put(socket, data, bytes);
}

bool TrainPages::put(int socket, std::byte* data, std::size_t bytes) {
  const auto all = static_cast<long>(bytes);
  const bool put = system_calls::put_pages(pipe_[1], {data, bytes}) == all;
  if (put && system_calls::move_pages(pipe_[0], socket, bytes) == all) return true;
  // Nothing of this train may be left in the pipe for the next one.
  while (system_calls::read(pipe_[0], data, kTrain) > 0) continue;
  // A sandbox may forbid vmsplice(): then it is not tried again.
  if (!put) close();
  return false;
}

}  // namespace viaduct
