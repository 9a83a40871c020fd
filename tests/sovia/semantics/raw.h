// System calls that go past libc, and so past whatever is preloaded: the suite's own connections
// and files use nothing else.
#ifndef SEMANTICS_RAW_H
#define SEMANTICS_RAW_H

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace semantics::raw {

template <class... Arguments>
long call(long number, Arguments... arguments) {
  return ::syscall(number, arguments...);
}

inline void close(int fd) { call(SYS_close, fd); }

// All of it; false at an error or, when reading, at an early end.
bool read_all(int fd, void* to, std::size_t n);
bool write_all(int fd, const void* from, std::size_t n);

// Moves a descriptor out of the range that cases use.
int out_of_the_way(int fd);

}  // namespace semantics::raw

#endif
