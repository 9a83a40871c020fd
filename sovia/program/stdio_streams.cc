#include "sovia/program/stdio_streams.h"

#include <fcntl.h>
#include <stdio_ext.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "sovia/process/libc.h"
#include "sovia/sovia.h"

namespace viaduct::sovia::streams {
namespace {

// A list without a lock, which a fork could find taken: it only grows, and entries are used again.
struct Stream {
  std::atomic<bool> used{false};
  std::atomic<FILE*> file{nullptr};
  int fd = -1;
  Stream* next = nullptr;
};

constinit std::atomic<Stream*> g_first{nullptr};

Stream* take() {
  for (Stream* stream = g_first.load(); stream != nullptr; stream = stream->next) {
    if (!stream->used.exchange(true)) return stream;
  }
  Stream* const made = new (std::nothrow) Stream;
  if (made == nullptr) return nullptr;
  made->used = true;
  made->next = g_first.load();
  while (!g_first.compare_exchange_weak(made->next, made)) {
  }
  return made;
}

void give_back(Stream* stream) {
  stream->file = nullptr;
  stream->used = false;
}

ssize_t read_cookie(void* cookie, char* data, std::size_t bytes) {
  return sovia_read(static_cast<Stream*>(cookie)->fd, data, bytes);
}

// Writes all, as streams on descriptors do; a short write is an error of the stream.
ssize_t write_cookie(void* cookie, const char* data, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t written = sovia_write(static_cast<Stream*>(cookie)->fd, data + done, bytes - done);
    if (written < 0) break;
    done += static_cast<std::size_t>(written);
  }
  return static_cast<ssize_t>(done);
}

int seek_cookie(void*, off64_t*, int) {
  return failed(ESPIPE);
}

int close_cookie(void* cookie) {
  Stream* const stream = static_cast<Stream*>(cookie);
  const int fd = stream->fd;
  give_back(stream);
  return sovia_close(fd);
}

// fopencookie takes a letter and at most one +. fdopen takes more letters, but ignores them.
bool mode_for_cookie(const char* mode, char into[3]) {
  if (*mode == '\0' || std::strchr("rwa", *mode) == nullptr) return false;
  into[0] = *mode;
  into[1] = std::strchr(mode, '+') != nullptr ? '+' : '\0';
  into[2] = '\0';
  return true;
}

// The flags of open() for a mode; -1 if there is no such mode.
int flags_of(const char* mode) {
  const int both = std::strchr(mode, '+') != nullptr ? O_RDWR : -1;
  switch (*mode) {
    case 'r':
      return both >= 0 ? both : O_RDONLY;
    case 'w':
      return (both >= 0 ? both : O_WRONLY) | O_CREAT | O_TRUNC;
    case 'a':
      return (both >= 0 ? both : O_WRONLY) | O_CREAT | O_APPEND;
    default:
      return -1;
  }
}

Stream* find(FILE* file) {
  for (Stream* stream = g_first.load(); stream != nullptr; stream = stream->next) {
    if (stream->file.load() == file) return stream;
  }
  return nullptr;
}

}  // namespace

FILE* open(int fd, const char* mode) {
  char short_mode[3];
  if (!mode_for_cookie(mode, short_mode)) {
    errno = EINVAL;
    return nullptr;
  }
  Stream* const stream = take();
  if (stream == nullptr) return nullptr;
  stream->fd = fd;
  const cookie_io_functions_t functions = {read_cookie, write_cookie, seek_cookie, close_cookie};
  FILE* const file = fopencookie(stream, short_mode, functions);
  if (file == nullptr) {
    give_back(stream);
    return nullptr;
  }
  stream->file = file;
  return file;
}

int descriptor(FILE* file) {
  const Stream* const stream = find(file);
  return stream != nullptr ? stream->fd : -1;
}

FILE* reopen(const char* path, const char* mode, FILE* file) {
  Stream* const stream = find(file);
  fflush(file);
  __fpurge(file);
  const int flags = flags_of(mode);
  const bool fits = flags >= 0 && ((flags & O_ACCMODE) == O_RDONLY ? __freadable(file) != 0
                                                                    : __fwritable(file) != 0);
  if (!fits) errno = EINVAL;
  const int fd = fits ? ::open(path, flags, 0666) : -1;
  if (fd < 0) {
    const int error = errno;
    fclose(file);
    errno = error;
    return nullptr;
  }
  sovia_close(stream->fd);
  stream->fd = fd;
  clearerr(file);
  return file;
}

void flush_all() {
  for (Stream* stream = g_first.load(); stream != nullptr; stream = stream->next) {
    FILE* const file = stream->file.load();
    if (file != nullptr) fflush(file);
  }
}

}  // namespace viaduct::sovia::streams
