// The receiving direction of a socket: what brings its next byte, and the bytes to be read before.
#ifndef VIADUCT_SOVIA_SOCKET_RX_STREAM_H
#define VIADUCT_SOVIA_SOCKET_RX_STREAM_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sovia/process/lock.h"
#include "sovia/process/lock_order.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/stream_locks.h"

namespace viaduct::sovia {

struct RxStream {
  explicit RxStream(bool nothing_read) : read_known(nothing_read) {}

  // The direction is on the lane, and nothing is unread. That stays so until the next invalidate_empty().
  bool known_empty() const { return empty.load(std::memory_order_acquire); }
  // To be called after a change of anything that concerns receiving.
  void invalidate_empty() {
    if (empty.load(std::memory_order_relaxed)) empty.store(false, std::memory_order_release);
  }
  // A call has found nothing to read, or has taken all. A count that two threads lose does no harm.
  void count_emptied() { emptied.store(emptied.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  std::size_t inherited_left() const VIADUCT_REQUIRES(lock) { return inherited != nullptr ? inherited->left() : 0; }
  // Whether the next bytes to be read are the lane's.
  bool is_on_lane() const VIADUCT_REQUIRES(lock) { return on_lane && inherited == nullptr && !shut; }
  // The record at the kernel's next byte, if one is expected.
  ResumeRecord& record() VIADUCT_REQUIRES(lock) { return inherited != nullptr ? inherited->record() : own_record; }
  const ResumeRecord& record() const VIADUCT_REQUIRES(lock) { return const_cast<RxStream*>(this)->record(); }
  // `bytes` are read first from now on, and the record comes behind them. The present inherited bytes are freed; other
  // processes may have them, and the record, too.
  void replace_inherited(InheritedBytes* bytes) VIADUCT_REQUIRES(lock) {
    if (bytes != nullptr && record().is_expected()) record().move_to(bytes->record());
    InheritedBytes* const before = inherited;
    set_inherited(bytes);
    // Last, as another thread may fork at any time, and the child goes on from there.
    if (before != nullptr) free_inherited_bytes(before);
  }
  void set_inherited(InheritedBytes* bytes) VIADUCT_REQUIRES(lock) {
    inherited = bytes;
    has_inherited.store(bytes != nullptr, std::memory_order_relaxed);
  }
  // Whether neither inherited bytes nor a record come first. Without the lock it is true for a moment only.
  bool has_nothing_first() const { return !has_inherited.load(std::memory_order_relaxed) && !own_record.is_expected(); }

  Lock lock SOVIA_LOCK_ORDER(sender, rx);
  bool on_lane VIADUCT_GUARDED_BY(lock) = false;
  // The unread bytes of the lane are its last, and the record behind it is known.
  bool leaves_lane VIADUCT_GUARDED_BY(lock) = false;
  bool shut VIADUCT_GUARDED_BY(lock) = false;  // the program has shut the direction down
  // The kernel's part of that waits for the record: behind both shutdowns the kernel would answer it with a reset. Read without
  // the lock, too.
  std::atomic<bool> shut_later{false};
  // The receive under way has emptied its source: the next bytes have another one.
  bool turns VIADUCT_GUARDED_BY(lock) = false;
  // Bytes read from the kernel so far, records too, as far as it is known. Counted here, as the kernel's own figures leave
  // out urgent bytes that have come since.
  std::uint64_t kernel_read VIADUCT_GUARDED_BY(lock) = 0;
  std::optional<std::uint64_t> kernel_end VIADUCT_GUARDED_BY(lock);  // the kernel's bytes behind it are refused
  bool read_known VIADUCT_GUARDED_BY(either_stream);  // `kernel_read` is right
  bool early_end VIADUCT_GUARDED_BY(lock) = false;  // the kernel's stream has ended before the lane's
  // The kernel's end came before the peer could begin with the lane: it is the connection's.
  bool end_counts VIADUCT_GUARDED_BY(lock) = false;
  InheritedBytes* inherited VIADUCT_GUARDED_BY(lock) = nullptr;  // to be read first; nullptr: nothing
  ResumeRecord own_record;

  std::atomic<bool> has_inherited{false};
  std::atomic<bool> empty{false};               // set with the lane locked
  std::atomic<std::uint32_t> emptied{0};        // calls that have found no more to read
  std::atomic<std::size_t> lane_unread{0};      // bytes: a hint
  std::atomic<std::uint32_t> last_packet{0};    // bytes of the last packet from the lane: a hint
  // Receives under way that would not notice a lane; increased with the lock held. A signal handler that leaves such a
  // receive by longjmp leaves it counted: the connection stays with the kernel.
  std::atomic<int> undisturbed{0};
};

}  // namespace viaduct::sovia

#endif
