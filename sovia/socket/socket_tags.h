// Tagged buffers: those of this end, which the peer puts to and gets from, and those of the peer. Where a lane is up
// they are open to RDMA on it; the rest goes in frames (tag_frames.h) through the layers above.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_TAGS_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_TAGS_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "sovia/message/frame.h"
#include "sovia/message/message_memory.h"
#include "sovia/message/tag_frames.h"
#include "sovia/message/tag_table.h"
#include "sovia/socket/socket_rendezvous.h"

namespace viaduct::sovia {

class SocketTags : public SocketRendezvous {
 public:
  // 0, or an errno. `access`: SOVIA_TAG_PUT, SOVIA_TAG_GET.
  int tag(void* buffer, std::size_t bytes, unsigned access, TagBytes& tag);

  // As those of the layers below.
  void release(int fd);
  void after_fork_in_child();

 protected:
  ~SocketTags() = default;

  // ------------------------------------------------------------------ this end's buffers
  // False: there is none of that name.
  bool withdraw_tag(std::uint64_t key);
  // Does what a kPut or kGet asks for. False: it is no such frame. `data`: what has been got.
  bool serve(FrameKind kind, const std::byte* body, std::size_t bytes, Answer& answer, MessageMemory& data);

  // ------------------------------------------------------------------ the peer's
  // Where one is open to RDMA.
  struct Place {
    std::uint32_t lane = 0, memory = 0;
    std::uint64_t address = 0;
    unsigned access = 0;
  };
  // The lane that could be used for that now; 0: none.
  std::uint32_t usable_lane();
  // False: the peer has not been asked since that lane came up.
  bool find_place(std::uint64_t key, std::uint32_t lane, Place& place);
  void forget_place(std::uint64_t key);
  // By RDMA, and waits until it has completed. False: the lane is lost, or the memory can't be had; it may have been
  // done in part.
  bool put_to(const Place& place, std::uint64_t offset, const std::byte* data, std::size_t bytes);
  bool get_from(const Place& place, std::uint64_t offset, std::byte* data, std::size_t bytes);

  // Pieces that are under way in the stream.
  struct Piece {
    std::uint64_t key;
    std::byte* to;  // of a get
    std::uint32_t bytes;
    bool gets;
  };
  std::uint32_t begin_piece(const Piece& piece);
  // It could not be sent.
  void drop_piece(std::uint32_t number);
  void drop_pieces();
  std::size_t pieces_under_way();
  bool is_under_way(std::uint32_t number);
  // False: the peer has no business to say so.
  bool take_answer(std::uint32_t number, const std::byte* body, std::size_t bytes);
  // The errno of the first piece that failed since this was asked; 0: none.
  int take_error();

  // Bytes that are to be read before what comes next: they were taken off the stream too early. False: there is no
  // memory.
  bool put_back(const iovec* pieces, std::size_t count);

 private:
  class Move;
  int do_put(const Range& range, const std::byte* data, std::size_t bytes);
  int do_get(const GetRange& get, MessageMemory& data);
  bool open_to_peer(TaggedBuffer& buffer);
  void close_to_peer(TaggedBuffer& buffer);

  Lock tags_lock_;
  TagTable tags_;

  Lock places_lock_;
  std::unordered_map<std::uint64_t, Place> places_;
  std::unordered_map<std::uint32_t, Piece> pieces_;
  std::uint32_t next_piece_ = 0;
  int error_ = 0;
};

}  // namespace viaduct::sovia

#endif
