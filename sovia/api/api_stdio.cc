// stdio on sockets. The C library's streams call the kernel by internal functions that can't be replaced, so streams on
// sockets are of another kind (stdio_streams.h).
#include <stdarg.h>

#include "sovia/api/api.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/program/stdio_streams.h"

using namespace viaduct::sovia;

namespace {

// The C library is about to close the stream's descriptor by itself.
void before_close(FILE* stream) {
  const KeepErrno keep;
  const int fd = libc::fileno(stream);
  if (fd < 0 || table::peek(fd) == nullptr) return;
  fflush(stream);
  const signals::Inside inside;
  const SocketRef socket = table::closing(fd);
  if (socket && socket->descriptors() == 0) socket->release(fd);
}

int descriptor_of(FILE* stream, int (*ask)(FILE*)) {
  const int saved = errno;
  const int fd = ask(stream);
  if (fd >= 0) return fd;
  const int ours = streams::descriptor(stream);
  if (ours >= 0) errno = saved;
  return ours;
}

}  // namespace

FILE* sovia_fdopen(int fd, const char* mode) {
  datagram::table::give_up(fd, Reason::kSplice);
  if (table::peek(fd) == nullptr) return libc::fdopen(fd, mode);
  return streams::open(fd, mode);
}

int sovia_fileno(FILE* stream) {
  libc::prepare();
  return descriptor_of(stream, libc::fileno);
}

int sovia_fileno_unlocked(FILE* stream) {
  libc::prepare();
  return descriptor_of(stream, libc::fileno_unlocked);
}

int sovia_fclose(FILE* stream) {
  libc::prepare();
  before_close(stream);
  return SOVIA_LATE(fclose)(stream);
}

FILE* sovia_freopen(const char* path, const char* mode, FILE* stream) {
  libc::prepare();
  if (path != nullptr && streams::descriptor(stream) >= 0) {
    return streams::reopen(path, mode, stream);
  }
  before_close(stream);
  return SOVIA_LATE(freopen)(path, mode, stream);
}

int sovia_vdprintf(int fd, const char* format, va_list arguments) {
  datagram::table::give_up(fd, Reason::kSplice);
  const Socket* const known = table::peek(fd);
  if (known == nullptr || !known->may_use_lane()) return SOVIA_LATE(vdprintf)(fd, format, arguments);
  char* text = nullptr;
  const int bytes = vasprintf(&text, format, arguments);
  if (bytes < 0) return bytes;
  int done = 0;
  while (done < bytes) {
    const ssize_t written = sovia_write(fd, text + done, static_cast<std::size_t>(bytes - done));
    if (written < 0) break;
    done += static_cast<int>(written);
  }
  const KeepErrno keep;
  free(text);
  return done == bytes ? bytes : -1;
}

int sovia_dprintf(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = sovia_vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}
