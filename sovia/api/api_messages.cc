#include "sovia/api/api_messages.h"

#include <limits.h>
#include <stdint.h>

#include "sovia/process/guarded_copy.h"

namespace viaduct::sovia::messages {
namespace {

// Flags that messages do not support: urgent data, errors of the kernel's, fast open.
constexpr int kNotSent = MSG_OOB | MSG_FASTOPEN;
constexpr int kNotReceived = MSG_OOB | MSG_ERRQUEUE;

int check(const iovec* pieces, std::size_t count) {
  if (count > IOV_MAX) return EMSGSIZE;
  if (!can_read(pieces, count * sizeof *pieces)) return EFAULT;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (__builtin_add_overflow(bytes, pieces[i].iov_len, &bytes) || bytes > SSIZE_MAX) return EINVAL;
  }
  return 0;
}

}  // namespace

ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags) {
  const Call socket(fd);
  if (!socket) return failed(EBADF);
  if ((flags & kNotSent) != 0) return failed(EOPNOTSUPP);
  if (const int error = check(pieces, count); error != 0) return failed(error);
  MessageSocket* const messages = MessageSocket::of(*socket);
  return messages != nullptr ? messages->send(fd, pieces, count, flags) : -1;
}

ssize_t send(int fd, const msghdr* message, int flags) {
  msghdr given;
  if (!copy_guarded(&given, message, sizeof given)) return failed(EFAULT);
  if (!can_read_address(given)) return failed(EFAULT);
  if (given.msg_controllen != 0) return failed(EOPNOTSUPP);
  return send(fd, given.msg_iov, given.msg_iovlen, flags);
}

namespace {

ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags, int& told) {
  const Call socket(fd);
  if (!socket) return failed(EBADF);
  if ((flags & kNotReceived) != 0) return failed(EOPNOTSUPP);
  if (const int error = check(pieces, count); error != 0) return failed(error);
  MessageSocket* const messages = MessageSocket::of(*socket);
  return messages != nullptr ? messages->receive(fd, pieces, count, flags, told) : -1;
}

}  // namespace

ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags) {
  int told;
  return receive(fd, pieces, count, flags, told);
}

ssize_t receive(int fd, msghdr* message, int flags) {
  msghdr given;
  if (!copy_guarded(&given, message, sizeof given)) return failed(EFAULT);
  int told = 0;
  const ssize_t received = receive(fd, given.msg_iov, given.msg_iovlen, flags, told);
  if (received < 0) return received;
  // As with TCP, no address is returned.
  if (given.msg_name != nullptr) given.msg_namelen = 0;
  given.msg_controllen = 0;
  given.msg_flags = told | (flags & MSG_CMSG_CLOEXEC);
  return copy_guarded(message, &given, sizeof given) ? received : failed(EFAULT);
}

}  // namespace viaduct::sovia::messages
