// The surroundings of a granted stack: the program's memory is at hand, sleepers are its threads.
#include "vipl/granted/granted_environment.h"

#include "vipl/process/attached_processes.h"
#include "vipl/granted/guarded_copy.h"
#include "vipl/session/pollers.h"
#include "vipl/process/sys.h"

namespace viaduct {
namespace {

// Copies between two lists of pieces of the same length in all, in order. kInOrder: later pieces
// of `to` become visible after earlier ones.
template <bool kInOrder>
bool copy(std::span<const iovec> to, std::span<const iovec> from) {
  std::size_t in_from = 0;  // bytes of from.front() that are done
  for (const iovec& piece : to) {
    auto* out = static_cast<std::byte*>(piece.iov_base);
    std::size_t left = piece.iov_len;
    if (kInOrder) std::atomic_thread_fence(std::memory_order_release);
    while (left != 0) {
      if (from.empty()) return false;
      const std::size_t room = from.front().iov_len - in_from;
      const std::size_t here = room < left ? room : left;
      const auto* in = static_cast<const std::byte*>(from.front().iov_base) + in_from;
      if (!vipl::guarded::copy(out, in, here)) return false;
      out += here;
      left -= here;
      in_from += here;
      if (in_from == from.front().iov_len) from = from.subspan(1), in_from = 0;
    }
  }
  return true;
}

}  // namespace

bool GrantedEnvironment::read_program(std::uint32_t program, std::span<const iovec> remote,
                                      std::span<const iovec> local) {
  if (program != 0) [[unlikely]] return company_->read(program, remote, local);
  return copy<false>(local, remote);
}

bool GrantedEnvironment::write_program(std::uint32_t program, std::span<const iovec> remote,
                                       std::span<const iovec> local) {
  if (program != 0) [[unlikely]] return company_->write(program, remote, local);
  return copy<true>(remote, local);
}

void GrantedEnvironment::wake(std::atomic<std::uint32_t>& word) {
  vipl::sys::futex_wake(word);
  // Who waits next to that word may be the one who sleeps on the port.
  if (watch_->asleep_until.load() == 0) return;
  const std::uint64_t one = 1;
  vipl::sys::write(watch_->poke, &one, sizeof one);
}

void GrantedEnvironment::chime(std::uint32_t program) {
  if (program == 0) {
    pollers_->wake();
  } else {
    company_->chime(program);
  }
}

std::uint64_t GrantedEnvironment::random() {
  return numbers_.draw(vipl::sys::random);
}

std::uint32_t GrantedEnvironment::put_up(const layout::Address& local, bool peer) {
  layout::Notices& notices = desk_.notices();
  for (std::uint32_t i = 0; i < layout::kNotices; ++i) {
    const std::uint64_t bit = 1ull << (i % 64);
    std::atomic<std::uint64_t>& word = notices.active[i / 64];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
    layout::Notice& notice = notices.notice[i];
    notice.local = local;
    notice.state.store(peer ? layout::kNoticePeer : layout::kNoticeWait, std::memory_order_release);
    word.fetch_or(bit);
    // Requests that came before the notice was up are held by the agent, which says so.
    if (notices.holding.load() != 0) {
      desk_.header().doorbells.ring(layout::kNoticeBit);
      if (desk_.header().driver_sleeps.exchange(0) != 0) {
        const std::uint64_t one = 1;
        vipl::sys::write(bell_, &one, sizeof one);
      }
    }
    return i;
  }
  return layout::kNoNotice;
}

void GrantedEnvironment::take_down(std::uint32_t notice) {
  if (notice >= layout::kNotices) return;
  layout::Notices& notices = desk_.notices();
  notices.active[notice / 64].fetch_and(~(1ull << (notice % 64)));
  notices.notice[notice].state.store(layout::kNoticeFree, std::memory_order_release);
}

}  // namespace viaduct
