// Calls that move data between files and sockets inside the kernel, or by threads of the C library.
#include <aio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <memory>

#include "sovia/api/api.h"
#include "sovia/api/api_messages.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/process/guarded_copy.h"

using namespace viaduct::sovia;

namespace {

constexpr std::size_t kPiece = 128 * 1024;
constexpr std::size_t kMostAtOnce = 0x7ffff000;  // as the kernel has it

// The memory for pieces of a file. Each thread keeps its own, so that the registration cache keeps it registered.
char* piece_memory() {
  struct Free {
    void operator()(char* memory) const { free(memory); }
  };
  static thread_local std::unique_ptr<char, Free> memory;
  if (!memory) memory.reset(static_cast<char*>(aligned_alloc(4096, kPiece)));
  return memory.get();
}

// Whether bytes can be read at an offset of the file, without consuming them.
bool is_file(int fd) {
  struct stat about;
  return fstat(fd, &about) == 0 && (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode));
}

// Reads the file from `position` on and sends it. Returns the bytes sent, or -1 if none were.
ssize_t send_file(int out, Socket& socket, int in, off_t position, std::size_t bytes) {
  char* const memory = piece_memory();
  if (memory == nullptr) return failed(ENOMEM);
  std::size_t sent = 0;
  while (sent < bytes) {
    const std::size_t wanted = bytes - sent < kPiece ? bytes - sent : kPiece;
    const ssize_t got = pread(in, memory, wanted, position + static_cast<off_t>(sent));
    if (got <= 0) return sent != 0 ? static_cast<ssize_t>(sent) : got;
    const iovec piece = {memory, static_cast<std::size_t>(got)};
    const ssize_t taken = socket.send(out, &piece, 1, 0);
    if (taken < 0) return sent != 0 ? static_cast<ssize_t>(sent) : taken;
    sent += static_cast<std::size_t>(taken);
    if (taken < got) break;  // the socket does not wait, or a signal came
  }
  return static_cast<ssize_t>(sent);
}

}  // namespace

ssize_t sovia_sendfile(int out, int in, off_t* offset, size_t bytes) {
  return keeping_errno([&]() -> ssize_t {
    if (messages::carried(out)) return failed(EINVAL);  // programs fall back on write() then
    datagram::table::give_up(out, Reason::kSplice);
    libc::prepare();
    const auto in_kernel = [&] { return libc::sendfile(out, in, offset, bytes); };
    const Socket* const known = table::peek(out);
    ssize_t result;
    if (known != nullptr && known->may_use_lane() && bypass_library(out, *known, result, in_kernel)) {
      return kernel_sent(result);
    }
    const Call socket = may_use_lane(out);
    if (!socket || bytes == 0 || !is_file(in)) {
      if (socket && bytes != 0) socket->leave_sending(out, Reason::kSplice);
      const signals::Outside outside;
      return known != nullptr ? kernel_sent(in_kernel()) : in_kernel();
    }
    if (send_in_kernel_at_once(*socket, out, bytes, in_kernel, result)) return kernel_sent(result);
    off_t position;
    if (offset == nullptr) {
      position = lseek(in, 0, SEEK_CUR);
    } else if (!copy_guarded(&position, offset, sizeof position)) {
      return failed(EFAULT);
    }
    if (position < 0) return failed(EINVAL);
    if (bytes > kMostAtOnce) bytes = kMostAtOnce;
    const ssize_t sent = send_file(out, *socket, in, position, bytes);
    if (sent <= 0) return sent;
    const KeepErrno keep;
    if (offset != nullptr) {
      position += sent;
      if (!copy_guarded(offset, &position, sizeof position)) return failed(EFAULT);
    } else {
      lseek(in, position + sent, SEEK_SET);
    }
    return sent;
  });
}

namespace {

// Copies bytes that came over a lane into the pipe. 0: there are none.
ssize_t splice_unread(int in, Socket& socket, int out, std::size_t bytes) {
  constexpr std::size_t kPiece = 4096;  // the stack may be small
  if (!socket.lane_has_data()) return 0;
  char data[kPiece];
  const iovec all{data, bytes < kPiece ? bytes : kPiece};
  const ssize_t peeked = socket.receive(in, &all, 1, MSG_PEEK | MSG_DONTWAIT);
  if (peeked <= 0) return peeked;
  const ssize_t written = [&] {
    const signals::Outside outside;
    return libc::write(out, data, static_cast<std::size_t>(peeked));
  }();
  if (written <= 0) return written;
  const iovec taken{data, static_cast<std::size_t>(written)};
  return socket.receive(in, &taken, 1, MSG_DONTWAIT);
}

}  // namespace

// Programs use splice() for the kernel's transfer without a copy, so the socket leaves its lane for it.
ssize_t sovia_splice(int in, loff_t* in_offset, int out, loff_t* out_offset, size_t bytes,
                     unsigned int flags) {
  return keeping_errno([&]() -> ssize_t {
    if (messages::carried(in) || messages::carried(out)) return failed(EINVAL);
    for (const int fd : {in, out}) {
      datagram::table::give_up(fd, Reason::kSplice);
      const Call socket = may_use_lane(fd);
      if (socket) socket->leave_for_good(fd, Reason::kSplice);
      if (socket && fd == in && in_offset == nullptr && out_offset == nullptr) {
        const ssize_t spliced = splice_unread(in, *socket, out, bytes);
        if (spliced != 0) return spliced;
      }
    }
    libc::prepare();
    return libc::splice(in, in_offset, out, out_offset, bytes, flags);
  });
}

// ------------------------------------------------------------------ asynchronous
// Threads of the C library read and write the kernel's socket, so the socket leaves its lane first.

namespace {

bool carries_messages(const aiocb* request) { return request != nullptr && messages::carried(request->aio_fildes); }

void leave_for_thread(const aiocb* request) {
  if (request != nullptr) leave_for_kernel(request->aio_fildes);
}

}  // namespace

void viaduct::sovia::leave_for_kernel(int fd) {
  datagram::table::give_up(fd, Reason::kSplice);
  leave_for_good(fd, Reason::kSplice);
}

int sovia_aio_read(aiocb* request) {
  if (carries_messages(request)) return failed(EINVAL);
  leave_for_thread(request);
  return SOVIA_LATE(aio_read)(request);
}

int sovia_aio_write(aiocb* request) {
  if (carries_messages(request)) return failed(EINVAL);
  leave_for_thread(request);
  return SOVIA_LATE(aio_write)(request);
}

int sovia_lio_listio(int mode, aiocb* const requests[], int count, sigevent* event) {
  for (int i = 0; i < count; ++i) {
    if (carries_messages(requests[i])) return failed(EINVAL);
  }
  for (int i = 0; i < count; ++i) leave_for_thread(requests[i]);
  return SOVIA_LATE(lio_listio)(mode, requests, count, event);
}
