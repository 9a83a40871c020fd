#include "sovia/message/tag_transfer.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>

#include <algorithm>

#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/socket/waiting_call.h"
#include "sovia/sovia.h"

namespace viaduct::sovia {
namespace {

constexpr std::size_t kMostUnderWay = 16;  // pieces

Range range_of(std::uint64_t key, std::uint64_t at, std::uint64_t first, std::uint64_t bytes) {
  return {key, htobe64(at), htobe64(first), htobe64(bytes)};
}

// Checks the access against the tag, as far as this end can. 0, or an errno.
int check(const TagBytes& tag, unsigned access, std::uint64_t offset, std::size_t bytes) {
  constexpr TagBytes kEmpty{{'S', 'V', 'T', 1}, 0, 0, 0, 0};
  if (!std::equal(tag.name, tag.name + sizeof tag.name, kEmpty.name) || tag.reserved != 0) return EINVAL;
  if ((be32toh(tag.access) & access) == 0) return EACCES;
  return TagRange{offset, bytes}.is_inside(be64toh(tag.bytes)) ? 0 : ERANGE;
}

// Waits for the peer's answers.
class Answers {
 public:
  Answers(const TagPath& path, int fd, std::uint64_t deadline)
      : socket_(path.socket), fd_(fd), waiting_(path.socket), ahead_(path.receiver, fd) {
    waiting_.set_deadline(deadline);
  }
  // False with errno: the answer does not come.
  template <class Ready>
  bool await(Ready&& ready) {
    using Taken = MessageReceiver::Taken;
    for (;;) {
      progress();
      const Taken taken = ahead_.look();
      const int error = errno;
      waiting_.looked_at = socket_.routes();
      if (ready()) return true;
      if (taken == Taken::kEnd || taken == Taken::kFailed) {
        errno = taken == Taken::kEnd ? ECONNRESET : error;
        return false;
      }
      if (waiting_.await(fd_, POLLIN, SO_RCVTIMEO)) continue;
      if (errno == EAGAIN) errno = ETIMEDOUT;
      return false;
    }
  }

 private:
  Socket& socket_;
  const int fd_;
  WaitingCall waiting_;
  MessageReceiver::ReadingAhead ahead_;
};

// Asks the peer where the buffer is, and whether the transfer is allowed. False with errno.
bool ask(const TagPath& path, int fd, Answers& answers, const TagTransfer& transfer) {
  const std::uint32_t number = path.peer.begin_piece({transfer.key, nullptr, 0, true});
  GetRange question{range_of(transfer.key, transfer.first, transfer.first, transfer.bytes), 0, 0};
  const iovec body{&question, sizeof question};
  if (!path.sender.send_control(fd, FrameKind::kGet, number, &body, 1)) {
    path.peer.drop_piece(number);
    return false;
  }
  return answers.await([&] { return !path.peer.is_under_way(number); });
}

// False: the transfer has to go in the stream; with `failed` it has failed, with errno.
bool by_rdma(const TagPath& path, int fd, Answers& answers, const TagTransfer& transfer, bool& failed) {
  const std::uint32_t lane = path.peer.usable_lane();
  PeerBuffers::Place place;
  if (lane == 0) return false;
  if (!path.peer.find(transfer.key, lane, place)) {
    failed = !ask(path, fd, answers, transfer);
    if (failed || !path.peer.find(transfer.key, lane, place)) return false;
  }
  const unsigned access = transfer.gets ? SOVIA_TAG_GET : SOVIA_TAG_PUT;
  if (place.memory == 0 || (place.access & access) == 0) return false;
  // RDMA waits for the pieces under way in the stream.
  failed = !answers.await([&] { return path.peer.pieces_under_way() == 0; });
  if (failed) return false;
  return path.peer.move(place, transfer.first + transfer.at, transfer.data + transfer.at, transfer.bytes - transfer.at,
                        transfer.gets);
}

bool send_piece(const TagPath& path, int fd, TagTransfer& transfer) {
  const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(kPieceBytes, transfer.bytes - transfer.at));
  std::byte* const data = transfer.data + transfer.at;
  // Unreadable memory is refused first: a frame cut short would end the connection.
  if (!transfer.gets && !can_read(data, bytes)) return failed(EFAULT, false);
  const Range range = range_of(transfer.key, transfer.first + transfer.at, transfer.first, transfer.bytes);
  GetRange head{range, htobe32(bytes), 0};
  const std::uint32_t number = path.peer.begin_piece({transfer.key, data, bytes, transfer.gets});
  const iovec get[] = {{&head, sizeof head}};
  const iovec put[] = {{&head.range, sizeof head.range}, {data, bytes}};
  const bool given = transfer.gets ? path.sender.send_control(fd, FrameKind::kGet, number, get, 1)
                                   : path.sender.send_control(fd, FrameKind::kPut, number, put, 2);
  if (!given) {
    path.peer.drop_piece(number);
    return false;
  }
  counters::add(Counter::kTaggedInStream);
  transfer.at += bytes;
  return true;
}

}  // namespace

int run_tag_transfer(const TagPath& path, int fd, const TagBytes& tag, TagTransfer transfer) {
  const unsigned access = transfer.gets ? SOVIA_TAG_GET : SOVIA_TAG_PUT;
  if (const int refused = check(tag, access, transfer.first, transfer.bytes); refused != 0) return failed(refused);
  if (transfer.bytes == 0) return 0;
  Answers answers(path, fd, kNever);
  while (transfer.at != transfer.bytes) {
    bool failed = false;
    if (by_rdma(path, fd, answers, transfer, failed)) return 0;
    if (failed || !answers.await([&] { return path.peer.pieces_under_way() < kMostUnderWay; })) return -1;
    if (!send_piece(path, fd, transfer)) return -1;
  }
  return 0;
}

int await_tag_transfers(const TagPath& path, int fd, int timeout_ms) {
  if (path.peer.pieces_under_way() != 0) {
    Answers answers(path, fd, deadline_in_ms(timeout_ms));
    if (!answers.await([&] { return path.peer.pieces_under_way() == 0; })) {
      // Nothing will be answered on a connection that has ended.
      if (errno != ETIMEDOUT && errno != EINTR && errno != ENOBUFS) path.peer.drop_pieces();
      return -1;
    }
  }
  const int error = path.peer.take_error();
  return error == 0 ? 0 : failed(error);
}

}  // namespace viaduct::sovia
