// Where the unread bytes of a stream are. TCP has one source: a receive takes all that is there, and MSG_PEEK sees it.
#ifndef VIADUCT_SOVIA_SOCKET_RX_SOURCES_H
#define VIADUCT_SOVIA_SOCKET_RX_SOURCES_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// A receive has emptied its source: whether others have bytes that it takes, too. It does not go by a mark of urgent
// data, and leaves an error of the kernel's to the next call.
bool goes_on_behind(Socket& socket, int fd) SOVIA_RX_LOCKED(socket);
// MSG_PEEK has seen `bytes` of the first source: copies those behind them that others have. Returns how many.
std::size_t look_behind(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                        std::size_t bytes) SOVIA_RX_LOCKED(socket);

// How many bytes of the kernel's come next: no more than there were before a look at what the lane has brought. It may have
// said that the direction goes on there, and a record would be taken for data. The lane is not locked.
std::uint64_t kernel_limit(Socket& socket, int fd) SOVIA_RX_LOCKED(socket);

// Whether the kernel's next byte is at a mark of urgent data.
bool is_at_mark(int fd);

}  // namespace viaduct::sovia

#endif
