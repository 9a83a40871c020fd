// The kernel as fuzz_trains has it, in place of that of xdp/xsk/system_calls.h: datagrams wait here to be received, and
// datagrams that are sent end here.
#ifndef VIADUCT_XDP_XSK_SYSTEM_CALLS_H
#define VIADUCT_XDP_XSK_SYSTEM_CALLS_H

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

namespace viaduct::system_calls {

struct Datagram {
  std::vector<std::uint8_t> bytes;
  int segment = 0;  // as the kernel tells it; 0: it does not
  sockaddr_in6 from{};
};

struct Sent {
  std::vector<std::uint8_t> bytes;
  std::size_t segment = 0;
  std::optional<sockaddr_in6> to;  // none: where the socket is connected to
};

struct Kernel {
  std::deque<Datagram> waiting;
  Datagram given;  // the last one that was received
  std::vector<Sent> sent;
  std::optional<sockaddr_in6> connected;
  std::vector<std::uint8_t> pipe;
  int segment = 0;  // of the socket
  unsigned mapped = 0;
  bool refuses_sends = false, refuses_connections = false, refuses_pages = false, moves_half = false;
};
inline Kernel g_kernel;

inline int refuse(int error) {
  errno = error;
  return -1;
}

inline int close(int) { return 0; }
inline int getsockopt(int, int, int, void* value, socklen_t* bytes) {
  std::memset(value, 0, *bytes);
  return 0;
}
inline int setsockopt(int, int level, int name, int value) {
  constexpr int kUdpSegment = 103;
  if (level == IPPROTO_UDP && name == kUdpSegment) g_kernel.segment = value;
  return 0;
}
inline int connect(int, const sockaddr_in6* to) {
  g_kernel.connected.reset();
  if (to == nullptr) return 0;
  if (g_kernel.refuses_connections) return refuse(EPERM);
  g_kernel.connected = *to;
  return 0;
}

inline bool is_same(const sockaddr_in6& one, const sockaddr_in6& other) {
  return one.sin6_port == other.sin6_port && std::memcmp(&one.sin6_addr, &other.sin6_addr, sizeof one.sin6_addr) == 0;
}

inline long receive_message(int, msghdr& message) {
  auto& waiting = g_kernel.waiting;
  while (!waiting.empty() && g_kernel.connected && !is_same(waiting.front().from, *g_kernel.connected)) {
    waiting.pop_front();
  }
  if (waiting.empty()) return refuse(EAGAIN);
  g_kernel.given = std::move(waiting.front());
  waiting.pop_front();
  const Datagram& datagram = g_kernel.given;
  std::memcpy(message.msg_name, &datagram.from, sizeof datagram.from);
  const std::size_t bytes = std::min(datagram.bytes.size(), message.msg_iov[0].iov_len);
  if (bytes != 0) std::memcpy(message.msg_iov[0].iov_base, datagram.bytes.data(), bytes);
  if (datagram.segment == 0) {
    message.msg_controllen = 0;
    return static_cast<long>(bytes);
  }
  constexpr int kUdpGro = 104;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = IPPROTO_UDP;
  head->cmsg_type = kUdpGro;
  head->cmsg_len = CMSG_LEN(sizeof datagram.segment);
  std::memcpy(CMSG_DATA(head), &datagram.segment, sizeof datagram.segment);
  message.msg_controllen = head->cmsg_len;
  return static_cast<long>(bytes);
}

inline long send_message(int, const msghdr& message) {
  if (g_kernel.refuses_sends) return refuse(ENOBUFS);
  Sent sent;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto* const data = static_cast<const std::uint8_t*>(message.msg_iov[i].iov_base);
    sent.bytes.insert(sent.bytes.end(), data, data + message.msg_iov[i].iov_len);
  }
  std::uint16_t segment;
  std::memcpy(&segment, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof segment);
  sent.segment = segment;
  sent.to = *static_cast<const sockaddr_in6*>(message.msg_name);
  const auto bytes = static_cast<long>(sent.bytes.size());
  g_kernel.sent.push_back(std::move(sent));
  return bytes;
}

inline long read(int, void* data, std::size_t bytes) {
  const std::size_t got = std::min(bytes, g_kernel.pipe.size());
  if (got == 0) return refuse(EAGAIN);
  std::memcpy(data, g_kernel.pipe.data(), got);
  g_kernel.pipe.erase(g_kernel.pipe.begin(), g_kernel.pipe.begin() + static_cast<std::ptrdiff_t>(got));
  return static_cast<long>(got);
}
inline long put_pages(int, const iovec& pages) {
  if (g_kernel.refuses_pages) return refuse(EPERM);
  const auto* const data = static_cast<const std::uint8_t*>(pages.iov_base);
  g_kernel.pipe.insert(g_kernel.pipe.end(), data, data + pages.iov_len);
  return static_cast<long>(pages.iov_len);
}
inline long move_pages(int, int, std::size_t bytes) {
  if (g_kernel.refuses_sends || !g_kernel.connected) return refuse(ENOBUFS);
  const std::size_t moved = std::min(g_kernel.moves_half ? bytes / 2 : bytes, g_kernel.pipe.size());
  const auto end = g_kernel.pipe.begin() + static_cast<std::ptrdiff_t>(moved);
  g_kernel.sent.push_back({{g_kernel.pipe.begin(), end}, static_cast<std::size_t>(g_kernel.segment), std::nullopt});
  g_kernel.pipe.erase(g_kernel.pipe.begin(), end);
  return static_cast<long>(moved);
}
inline bool kernel_is_from(unsigned, unsigned) { return true; }

inline void* map_untouched(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_kernel.mapped += at != MAP_FAILED;
  return at == MAP_FAILED ? nullptr : at;
}
inline void unmap(void* at, std::size_t bytes) {
  ::munmap(at, bytes);
  --g_kernel.mapped;
}

}  // namespace viaduct::system_calls

#endif
