#include "sovia/socket/socket_share.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include <mutex>
#include <new>

#include "sovia/socket/background_requests.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/inherited_bytes.h"

namespace viaduct::sovia {
namespace {

// From the kernel, which has them or gets them soon, as long as the connection lives.
std::size_t receive_all(int fd, std::byte* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = libc::recv(fd, to + done, bytes - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) break;
    pollfd one{fd, POLLIN, 0};
    libc::poll(&one, 1, 10);
  }
  return done;
}

template <class T>
void renew(T& object) {
  new (&object) T;
}

}  // namespace

// Moves unread bytes that this process alone can read to shared memory: the rest of what was
// moved before, then what the kernel has yet to give before the lane's, then the lane's. In and out
// locked.
void SocketShare::gather_unread(int fd) {
  if (lane_ == nullptr || reset_) return;
  Lane& lane = lane_->lane;
  std::size_t bytes;
  {
    const std::scoped_lock lane_guard(lane.lock());
    settle_receiving(lane);
    bytes = lane.rx.unread();
  }
  // A process without a lane finds what comes before the record here.
  const bool drains = fell_ && receiving_ == Phase::kDrain && inherited_bytes_ != nullptr;
  if (bytes == 0 && !drains) return;
  const std::size_t rest = inherited_bytes_ != nullptr ? inherited_bytes_->left() : 0;
  const std::size_t before = receiving_ == Phase::kDrain ? kernel_left_ : 0;
  InheritedBytes* const inherited_bytes = make_inherited_bytes(rest + before + bytes);
  std::size_t at = 0;
  if (inherited_bytes != nullptr) {
    const iovec first{inherited_bytes->data(), rest};
    if (rest != 0) at = read_inherited_bytes(*inherited_bytes_, &first, 1, 0, false);
    const std::size_t got = receive_all(fd, inherited_bytes->data() + at, before);
    at += got;
    kernel_read_ += got;
    if (got == before) {
      const std::scoped_lock lane_guard(lane.lock());
      const iovec all{inherited_bytes->data() + at, bytes};
      const std::size_t read = lane.rx.read(&all, 1, 0, false);
      if (read != bytes) reset(fd);
      at += read;
      kernel_left_ = 0;
    } else {
      reset(fd);
    }
    inherited_bytes->set_bytes(at);
    counters::add(Counter::kInheritedBytes, at);
    if (inherited_bytes_ != nullptr) inherited_bytes_->move_record(*inherited_bytes);
    if (inherited_bytes_ != nullptr) free_inherited_bytes(inherited_bytes_);
    inherited_bytes_ = inherited_bytes;
  } else {
    reset(fd);
  }
  // A process that went on without these bytes would take what follows for them.
  if (reset_) {
    const std::scoped_lock lane_guard(lane.lock());
    lane.rx.discard(lane.rx.unread());
  }
  receiving_changed(RouteEvent::kLaneEnded);
  background::look_at(*lane_);
}

void SocketShare::share(int fd) {
  const std::scoped_lock both(in_, out_);
  gather_unread(fd);
  // In a file, each process can pass it on without taking it from the others.
  if (inherited_bytes_ != nullptr && inherited_bytes_->expects_record()) file_of(inherited_bytes_);
  if (lane_ != nullptr) background::look_at(*lane_);
  read_known_ = false;  // from now on others may read too
  if (holders_ == nullptr) {
    holders_ = make_holders();
    if (holders_ != nullptr) holders_->lanes.store(lane_number_.load());
  }
  if (holders_ != nullptr) {
    holders_->count.fetch_add(1);
    trust_nothing();
  }
  mode_changed();
}

void SocketShare::fork_failed() {
  const std::scoped_lock both(in_, out_);
  if (holders_ != nullptr) holders_->count.fetch_sub(1);
}

void SocketShare::gather(int fd) {
  const std::scoped_lock both(in_, out_);
  gather_unread(fd);
  if (lane_ == nullptr) return;
  {
    const std::scoped_lock lane_guard(lane_->lane.lock());
    settle_receiving(lane_->lane);
    // A reader would find that nothing comes over the lane any more.
    const bool empty = lane_->lane.rx.unread() == 0 && lane_->lane.control.receiving() == Lane::State::kEnded;
    if (empty && lane_->lane.control.started()) receiving_changed(RouteEvent::kLaneEnded);
  }
  background::look_at(*lane_);
}

int SocketShare::export_unread(int fd) {
  const std::scoped_lock both(in_, out_);
  gather_unread(fd);
  if (inherited_bytes_ == nullptr || (inherited_bytes_->left() == 0 && !inherited_bytes_->expects_record())) return -1;
  const int file = file_of(inherited_bytes_);
  if (file < 0) reset(fd);
  struct stat about;
  if (file >= 0 && fstat(fd, &about) == 0) inherited_bytes_->set_socket(about.st_ino);
  return file;
}

void SocketShare::inherit(InheritedBytes* inherited_bytes, Reason why) {
  const std::scoped_lock both(in_, out_);
  inherited_bytes_ = inherited_bytes;
  forbidden_ = true;
  for_good_.store(true);
  shown_.set(ShownSocket::Way::kKernel, why);
  read_known_ = false;
}

void SocketShare::inherit_loss(int fd) {
  const std::scoped_lock both(in_, out_);
  forbidden_ = true;
  reset(fd);
}

void SocketShare::detach() {
  const std::scoped_lock both(in_, out_);
  if (detached_ || holders_ == nullptr) return;
  detached_ = true;
  holders_->count.fetch_sub(1);
}

void SocketShare::reattach() {
  const std::scoped_lock both(in_, out_);
  if (!detached_) return;
  detached_ = false;
  holders_->count.fetch_add(1);
}

void SocketShare::after_fork_in_child() {
  renew(in_);
  renew(out_);
  // The end is the parent's thread's to free; here it is only memory that is never looked at again.
  if (lane_ != nullptr && receiving_ == Phase::kKernel && sending_ == Phase::kKernel) {
    // leave() has not been called, or failed.
    reset_ = true;
  }
  lane_ = nullptr;
  fell_ = false;
  watched_ = false;
  drop_kept();
  receiving_changed(RouteEvent::kLaneChanged);
  sending_changed(RouteEvent::kLaneChanged);
  stage_ = Stage::kNone;
  shown_.set(ShownSocket::Way::kKernel, Reason::kFork);
  calls_.store(0);
  bytes_.store(0);
  if (MessageLayer* const layer = message_layer(); layer != nullptr) layer->after_fork_in_child();
}

}  // namespace viaduct::sovia
