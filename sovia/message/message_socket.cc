#include "sovia/message/message_socket.h"

#include <errno.h>

#include <memory>
#include <new>

#include "sovia/lane/tcp_route.h"
#include "sovia/message/tag_transfer.h"
#include "sovia/process/libc.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// Without a connection no data has gone, and the kernel has no counts to ask for.
bool has_peer(int fd) {
  const KeepErrno keep;
  Flow flow;
  return flow_of(fd, flow) || errno != ENOTCONN;
}

int result_of(int error) { return error == 0 ? 0 : failed(error); }

}  // namespace

MessageSocket* MessageSocket::of(Socket& socket) {
  MessageLayer* layer = socket.modes.message_layer();
  if (layer == nullptr) {
    std::unique_ptr<MessageLayer> made(new (std::nothrow) MessageSocket(socket));
    if (made == nullptr) {
      errno = ENOMEM;
      return nullptr;
    }
    layer = socket.modes.keep_message_layer(std::move(made));
  }
  return static_cast<MessageSocket*>(layer);
}

int MessageSocket::turn(int fd, bool on) {
  std::uint64_t written = 0, unsent = 0, read = 0;
  const LockGuard both(receiver_.lock(), sender_.lock());
  const bool known =
      !has_peer(fd) || (bytes_written(fd, socket_.modes.opener(), written, unsent) && bytes_read(fd, read));
  if (on != socket_.modes.carries_messages() && (!known || written != 0 || read != 0 || receiver_.is_inside_frame())) {
    return failed(EISCONN);
  }
  socket_.modes.carry_messages(on);
  return 0;
}

void MessageSocket::after_fork_in_child() {
  tagged_.after_fork_in_child();
  peer_.after_fork_in_child();
  sender_.after_fork_in_child();
  receiver_.after_fork_in_child();
}

int MessageSocket::tag(void* buffer, std::size_t bytes, unsigned access, TagBytes& tag) {
  return result_of(tagged_.add(buffer, bytes, access, tag));
}

int MessageSocket::untag(int fd, const TagBytes& tag) {
  std::uint64_t key = tag.key;
  if (!tagged_.withdraw(key)) return result_of(EINVAL);
  const iovec body{&key, sizeof key};
  const KeepErrno keep;
  sender_.send_control(fd, FrameKind::kGone, 0, &body, 1);
  return 0;
}

int MessageSocket::put(int fd, const TagBytes& tag, std::uint64_t offset, const void* data, std::size_t bytes) {
  return run_tag_transfer({socket_, receiver_, sender_, peer_}, fd, tag,
                          {false, tag.key, offset, static_cast<std::byte*>(const_cast<void*>(data)), bytes});
}

int MessageSocket::get(int fd, const TagBytes& tag, std::uint64_t offset, void* data, std::size_t bytes) {
  return run_tag_transfer({socket_, receiver_, sender_, peer_}, fd, tag,
                          {true, tag.key, offset, static_cast<std::byte*>(data), bytes});
}

int MessageSocket::done(int fd, int timeout_ms) {
  return await_tag_transfers({socket_, receiver_, sender_, peer_}, fd, timeout_ms);
}

}  // namespace viaduct::sovia
