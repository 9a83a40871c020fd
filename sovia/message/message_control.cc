// Frames between the messages that programs don't see: puts and gets on the other end's tagged buffers, and the
// answers.
#include <errno.h>

#include <algorithm>
#include <cstring>

#include "sovia/message/message_receiver.h"
#include "sovia/process/libc.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

// Takes the whole next frame, and carries it out.
MessageReceiver::Taken MessageReceiver::take_control(int fd) {
  const Taken taken = fill(fd, control_.body, control_.frame.length, &MessageReceiver::take_stream);
  if (taken != Taken::kSome) return taken;
  control_.comes = false;
  const bool good = answer_control(fd);
  control_.body.clear();
  return good ? Taken::kSome : fail(fd, EPROTO);
}

bool MessageReceiver::answer_control(int fd) {
  const std::byte* const body = control_.body.data();
  const std::size_t bytes = control_.body.size();
  switch (control_.frame.kind) {
    case FrameKind::kPut:
    case FrameKind::kGet: {
      Answer answer;
      MessageMemory data;
      if (!tagged_.serve(control_.frame.kind, body, bytes, answer, data)) return false;
      const iovec pieces[] = {{&answer, sizeof answer}, {data.data(), data.size()}};
      // The result is ignored: if the answer can't be sent, the stream has ended or failed, and the peer learns that
      // from the stream.
      sender_.send_control(fd, FrameKind::kAnswer, control_.frame.number, pieces, 2);
      return true;
    }
    case FrameKind::kAnswer:
      news_.store(true);
      return peer_.take_answer(control_.frame.number, body, bytes);
    case FrameKind::kGone: {
      std::uint64_t key;
      if (bytes != sizeof key) return false;
      std::memcpy(&key, body, sizeof key);
      peer_.forget(key);
      return true;
    }
    case FrameKind::kMessage:
    case FrameKind::kOffer:
      break;
  }
  return false;
}

// Reads ahead until nothing more has come.
MessageReceiver::Taken MessageReceiver::read_ahead(int fd) {
  if (const int error = failure_.error(); error != 0) return failed(error, Taken::kFailed);
  if (ahead_.empty()) {
    if (!ahead_.begin(head_, head_bytes_, body_.data(), body_.size())) return fail(fd, ENOMEM);
    head_bytes_ = 0;
    body_.clear();
  }
  for (;;) {
    if (control_.comes) {
      if (const Taken taken = take_control(fd); taken != Taken::kSome) return taken;
    }
    Frame frame;
    bool valid = true;
    if (ahead_.has_head(frame, valid) && valid && !frame.is_for_program()) {
      ahead_.drop_head();
      control_.comes = true;
      control_.frame = frame;
      continue;
    }
    if (!valid) return failed(EPROTO, Taken::kFailed);  // a receive will meet the same failure
    if (ahead_.wants() == 0) {
      ahead_.end_frame();
      continue;
    }
    if (ahead_.size() >= ReadAhead::kMost) return failed(ENOBUFS, Taken::kFailed);
    std::byte room[4096];
    const iovec piece{room, std::min(sizeof room, ahead_.wants())};
    std::size_t bytes = 0;
    const Taken taken = take_stream(fd, &piece, 1, 0, 0, bytes);
    if (taken != Taken::kSome) return taken;
    if (!ahead_.append(room, bytes)) return fail(fd, ENOMEM);
    news_.store(true);
  }
}

MessageReceiver::ReadingAhead::ReadingAhead(MessageReceiver& receiver, int fd) : receiver_(receiver), fd_(fd) {
  const LockGuard guard(receiver.lock_);
  ++receiver.readers_ahead_;
}

MessageReceiver::ReadingAhead::~ReadingAhead() {
  const int error = errno;
  {
    const LockGuard guard(receiver_.lock_);
    const bool last = --receiver_.readers_ahead_ == 0;
    if (last && !receiver_.put_back_all()) receiver_.fail(fd_, ENOMEM);
  }
  receiver_.tell_news();
  errno = error;
}

MessageReceiver::Taken MessageReceiver::ReadingAhead::look() {
  Taken taken;
  {
    const LockGuard guard(receiver_.lock_);
    taken = receiver_.read_ahead(fd_);
  }
  const int error = errno;
  receiver_.tell_news();
  errno = error;
  return taken;
}

bool MessageReceiver::put_back_all() {
  if (ahead_.empty()) return true;
  std::byte head[kFrameBytes];
  control_.frame.write(head);
  const iovec pieces[] = {{const_cast<std::byte*>(ahead_.data()), ahead_.size()},
                          {head, control_.comes ? kFrameBytes : 0},
                          {control_.body.data(), control_.body.size()}};
  if (!socket_.put_back(pieces, 3)) return false;
  ahead_.clear();
  control_.body.clear();
  control_.comes = false;
  news_.store(true);
  return true;
}

// Wakes other threads that wait for answers. To be called without the locks of a receive or send.
void MessageReceiver::tell_news() {
  if (!news_.load(std::memory_order_relaxed) || !news_.exchange(false)) return;
  socket_.routes_changed();
  socket_.changed();
}

}  // namespace viaduct::sovia
