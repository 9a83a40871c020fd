// Puts to tagged buffers of the peer's, and gets from them: by RDMA where a lane is up and the peer has said where the
// buffer is open, else in pieces in the stream of messages, which the peer's library answers.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_PLACING_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_PLACING_H

#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket_messages.h"

namespace viaduct::sovia {

class SocketPlacing : public SocketMessages {
 public:
  // -1 with errno. See sovia.h.
  int put(int fd, const TagBytes& tag, std::uint64_t offset, const void* data, std::size_t bytes);
  int get(int fd, const TagBytes& tag, std::uint64_t offset, void* data, std::size_t bytes);
  int done(int fd, int timeout_ms);
  int untag(int fd, const TagBytes& tag);

 protected:
  ~SocketPlacing() = default;

 private:
  struct Transfer {
    bool gets;
    std::uint64_t key, first;
    std::byte* data;
    std::size_t bytes;
    std::size_t at = 0;  // so many bytes are under way
  };
  class Answers;
  int run(int fd, const TagBytes& tag, Transfer transfer);
  bool by_rdma(int fd, Answers& answers, Transfer& transfer, bool& failed);
  bool give_piece(int fd, Transfer& transfer);
  bool ask(int fd, Answers& answers, const Transfer& transfer);
};

}  // namespace viaduct::sovia

#endif
