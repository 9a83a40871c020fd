// A position in a list of pieces of memory.
#ifndef VIADUCT_KAGENT_CONTRACT_IOVEC_CURSOR_H
#define VIADUCT_KAGENT_CONTRACT_IOVEC_CURSOR_H

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace viaduct {

class IovecCursor {
 public:
  explicit IovecCursor(std::span<const iovec> pieces) : pieces_(pieces) { skip_empty(); }

  // Bytes in a row from here on; 0 at the end.
  std::size_t room() const { return pieces_.empty() ? 0 : pieces_[0].iov_len - at_; }
  std::byte* here() const { return static_cast<std::byte*>(pieces_[0].iov_base) + at_; }
  void advance(std::size_t bytes) {
    at_ += bytes;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (!pieces_.empty() && at_ == pieces_[0].iov_len) {
      pieces_ = pieces_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const iovec> pieces_;
  std::size_t at_ = 0;
};

}  // namespace viaduct

#endif
