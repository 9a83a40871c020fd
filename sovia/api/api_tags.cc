// Tagged buffers: sovia_tag, sovia_untag, sovia_put, sovia_get, sovia_done.
#include "sovia/api/api.h"
#include "sovia/message/message_socket.h"
#include "sovia/process/guarded_copy.h"

using namespace viaduct::sovia;

namespace {

static_assert(sizeof(struct sovia_tag) == sizeof(TagBytes));

// The socket of a call on tagged buffers, if it carries messages; otherwise error() is an errno.
class Tagging {
 public:
  explicit Tagging(int fd) : socket_(fd) {
    if (socket_ && socket_->modes.carries_messages()) {
      messages_ = MessageSocket::of(*socket_);
      if (messages_ == nullptr) error_ = ENOMEM;
      return;
    }
    if (socket_ || table::is_tcp(fd)) {
      error_ = EOPNOTSUPP;
      return;
    }
    libc::prepare();
    error_ = libc::fcntl(fd, F_GETFD) < 0 ? EBADF : ENOTSOCK;
  }
  int error() const { return error_; }
  MessageSocket& messages() const { return *messages_; }

 private:
  const Call socket_;
  MessageSocket* messages_ = nullptr;
  int error_ = 0;
};

template <class Body>
int with_tag(int fd, const struct sovia_tag* tag, Body&& body) {
  return keeping_errno([&]() -> int {
    const Tagging tagging(fd);
    TagBytes given;
    if (tagging.error() != 0) return failed(tagging.error());
    return copy_guarded(&given, tag, sizeof given) ? body(tagging.messages(), given) : failed(EFAULT);
  });
}

}  // namespace

int sovia_tag(int fd, void* buffer, size_t bytes, int access, struct sovia_tag* tag) {
  return keeping_errno([&]() -> int {
    const Tagging tagging(fd);
    if (tagging.error() != 0) return failed(tagging.error());
    const int known = SOVIA_TAG_PUT | SOVIA_TAG_GET;
    if (access == 0 || (access & ~known) != 0 || bytes == 0) return failed(EINVAL);
    TagBytes made;
    if (tagging.messages().tag(buffer, bytes, static_cast<unsigned>(access), made) != 0) return -1;
    return copy_guarded(tag, &made, sizeof made) ? 0 : failed(EFAULT);
  });
}

int sovia_untag(int fd, const struct sovia_tag* tag) {
  return with_tag(fd, tag, [=](MessageSocket& messages, const TagBytes& given) { return messages.untag(fd, given); });
}

int sovia_put(int fd, const struct sovia_tag* tag, size_t offset, const void* data, size_t bytes) {
  return with_tag(fd, tag, [=](MessageSocket& messages, const TagBytes& given) {
    return messages.put(fd, given, offset, data, bytes);
  });
}

int sovia_get(int fd, const struct sovia_tag* tag, size_t offset, void* data, size_t bytes) {
  return with_tag(fd, tag, [=](MessageSocket& messages, const TagBytes& given) {
    return messages.get(fd, given, offset, data, bytes);
  });
}

int sovia_done(int fd, int timeout) {
  return keeping_errno([&]() -> int {
    const Tagging tagging(fd);
    return tagging.error() != 0 ? failed(tagging.error()) : tagging.messages().done(fd, timeout);
  });
}
