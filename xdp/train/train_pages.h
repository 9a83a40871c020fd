// Trains that the kernel takes as they lie in memory: their pages go into a pipe, and from there into a
// connected socket.
//
//   frames --copied--> pages --vmsplice--> pipe --splice--> socket --> network
//
// If the kernel copies, it does so into pages that it has just got back. Where the link is between two processors,
// these are in the cache of the one that has read the train before, and to write there takes several times as long as
// to write where no processor has looked lately. So there are more pages here than such a cache holds, and each page
// is used again only when all the others have been used.
//
// If the receiver has more trains to read than there are pages, a page may be used again before it has been read. Its
// frames then fail the test of their checksum and count as lost: frames without a checksum must not go this way. Nor
// may a peer read what another peer is sent: so another peer gets other pages, see renew().
//
// For libvipl too: no allocation, no exception, nothing but the C library.
#ifndef VIADUCT_XDP_TRAIN_TRAIN_PAGES_H
#define VIADUCT_XDP_TRAIN_TRAIN_PAGES_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace viaduct {

class TrainPages {
 public:
  TrainPages() = default;
  ~TrainPages() { close(); }
  TrainPages(const TrainPages&) = delete;
  TrainPages& operator=(const TrainPages&) = delete;

  // `pipe`: the two ends of a pipe, the one to read from first. Takes them over.
  void open(const int (&pipe)[2]);
  void close();
  // Whether this kernel takes pages, and there is a pipe.
  bool can() const { return pipe_[0] >= 0; }
  void descriptors(int (&out)[2]) const { out[0] = pipe_[0], out[1] = pipe_[1]; }

  // Gives the present pages up. They last as long as trains that were sent from them.
  void renew();

  // Sends a train of segments of this length. False if the kernel would not have it.
  bool send(int socket, std::span<const iovec> pieces, std::uint16_t segment);

  static constexpr std::uint32_t kTrains = 64;

 private:
  static constexpr std::size_t kTrain = 65'536;

  std::byte* gathered(std::span<const iovec> pieces, std::size_t& bytes);
  bool put(int socket, std::byte* data, std::size_t bytes);

  int pipe_[2] = {-1, -1};
  std::byte* memory_ = nullptr;
  std::uint32_t next_ = 0;
  std::uint16_t segment_ = 0;  // the length that the socket has been told; 0: none yet
};

}  // namespace viaduct

#endif
