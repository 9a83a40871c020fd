// The peer's tagged buffers, as far as this end knows them: where they are open to RDMA, and the puts and gets that
// are under way to them in the stream of messages.
#ifndef VIADUCT_SOVIA_MESSAGE_PEER_BUFFERS_H
#define VIADUCT_SOVIA_MESSAGE_PEER_BUFFERS_H

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "sovia/process/lock_order.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class PeerBuffers {
 public:
  explicit PeerBuffers(Socket& socket) : socket_(socket) {}

  // Where a buffer is open to RDMA.
  struct Place {
    std::uint32_t lane = 0, memory = 0;
    std::uint64_t address = 0;
    unsigned access = 0;
  };
  // The lane that could be used for RDMA now; 0: none.
  std::uint32_t usable_lane();
  // False: the peer has not been asked for the buffer's place since that lane came up.
  bool find(std::uint64_t key, std::uint32_t lane, Place& place);
  void forget(std::uint64_t key);
  // Put or get by RDMA, and wait until that has completed. False: the lane is lost, or the memory can't be had; a part
  // may have been done.
  bool move(const Place& place, std::uint64_t offset, std::byte* data, std::size_t bytes, bool gets);

  // Pieces that are under way in the stream.
  struct Piece {
    std::uint64_t key;
    std::byte* to;  // for a get, the memory that gets the bytes
    std::uint32_t bytes;
    bool gets;
  };
  std::uint32_t begin_piece(const Piece& piece);
  // The piece could not be sent.
  void drop_piece(std::uint32_t number);
  void drop_pieces();
  std::size_t pieces_under_way();
  bool is_under_way(std::uint32_t number);
  // False: no such piece is under way, or the bytes are no answer to it.
  bool take_answer(std::uint32_t number, const std::byte* body, std::size_t bytes);
  // The errno of the first piece that failed since the last call; 0: none.
  int take_error();

  // Forgets places and pieces: they are the parent's.
  void after_fork_in_child();

 private:
  Socket& socket_;
  Lock lock_ SOVIA_LOCK_ORDER(sender, rx);
  std::unordered_map<std::uint64_t, Place> places_ VIADUCT_GUARDED_BY(lock_);
  std::unordered_map<std::uint32_t, Piece> pieces_ VIADUCT_GUARDED_BY(lock_);
  std::uint32_t next_piece_ VIADUCT_GUARDED_BY(lock_) = 0;
  int error_ VIADUCT_GUARDED_BY(lock_) = 0;
};

}  // namespace viaduct::sovia

#endif
