// The surroundings of a granted stack: the program's memory is at hand, sleepers are its threads.
#include "vipl/granted/granted_environment.h"

#include "vipl/process/attached_processes.h"
#include "vipl/granted/guarded_copy.h"
#include "vipl/session/pollers.h"
#include "vipl/session/thread_registry.h"
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

bool GrantedEnvironment::read_program(std::uint32_t program, const Reader&, std::span<const iovec> remote,
                                      std::span<const iovec> local) {
  if (program != 0) [[unlikely]] return attached_->read(program, remote, local);
  return copy<false>(local, remote);
}

bool GrantedEnvironment::write_program(std::uint32_t program, std::span<const iovec> remote,
                                       std::span<const iovec> local) {
  if (program != 0) [[unlikely]] return attached_->write(program, remote, local);
  return copy<true>(remote, local);
}

void GrantedEnvironment::wake(std::atomic<std::uint32_t>& word) {
  vipl::sys::futex_wake(word);
  // The thread that waits for the word may be the one that sleeps on the port.
  if (watch_->asleep_until.load() == 0) return;
  const std::uint64_t one = 1;
  vipl::sys::write(watch_->driver_wake, &one, sizeof one);
}

void GrantedEnvironment::poll_wake(std::uint32_t program) {
  if (program == 0) {
    // A thread that has a turn before it sleeps, or has just woken up, looks by itself.
    const vipl::ThreadRecord* const own = vipl::thread_registry::t_record;
    pollers_->wake(own != nullptr ? &own->poller : nullptr);
  } else {
    attached_->poll_wake(program);
  }
}

std::uint64_t GrantedEnvironment::random() {
  return numbers_.draw(vipl::sys::random);
}

std::uint32_t GrantedEnvironment::publish(const layout::Address& local, bool peer) {
  layout::Listeners& listeners = control_session_.listeners();
  for (std::uint32_t i = 0; i < layout::kListeners; ++i) {
    const std::uint64_t bit = 1ull << (i % 64);
    std::atomic<std::uint64_t>& word = listeners.active[i / 64];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
    layout::Listener& listener = listeners.listener[i];
    listener.local = local;
    listener.state.store(peer ? layout::kListenerPeer : layout::kListenerWait, std::memory_order_release);
    word.fetch_or(bit);
    // The agent may hold requests that came before this listener was up; `holding` says so.
    if (listeners.holding.load() != 0) {
      control_session_.header().doorbells.ring(layout::kListenerBit);
      if (control_session_.header().driver_sleeps.exchange(0) != 0) {
        const std::uint64_t one = 1;
        vipl::sys::write(agent_wake_, &one, sizeof one);
      }
    }
    return i;
  }
  return layout::kNoListener;
}

void GrantedEnvironment::withdraw(std::uint32_t listener) {
  if (listener >= layout::kListeners) return;
  layout::Listeners& listeners = control_session_.listeners();
  listeners.active[listener / 64].fetch_and(~(1ull << (listener % 64)));
  listeners.listener[listener].state.store(layout::kListenerFree, std::memory_order_release);
}

}  // namespace viaduct
