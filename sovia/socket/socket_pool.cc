#include "sovia/socket/socket_pool.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

#include "sovia/process/lock_order.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr std::size_t kBlock = 64 * 1024;

// A free socket's memory: the count of references comes first and is 0, the rest is free.
struct Free {
  std::atomic<std::uint32_t> references;
  Free* next;
};

Mutex g_lock SOVIA_LOCK_ORDER(requests, pool);
Free* g_free VIADUCT_GUARDED_BY(g_lock) = nullptr;

bool more() VIADUCT_REQUIRES(g_lock) {
  void* const block = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);
  if (block == MAP_FAILED) return false;
  constexpr std::size_t kEach = (sizeof(Socket) + 63) / 64 * 64;
  for (std::size_t at = 0; at + kEach <= kBlock; at += kEach) {
    auto* const one = reinterpret_cast<Free*>(static_cast<std::byte*>(block) + at);
    one->next = g_free;
    g_free = one;
  }
  return true;
}

}  // namespace

Socket* SocketPool::make(bool read_known) {
  void* memory;
  {
    const LockGuard guard(g_lock);
    if (g_free == nullptr && !more()) return nullptr;
    memory = g_free;
    g_free = g_free->next;
  }
  Socket* const socket = new (memory) Socket(read_known);
  socket->descriptors_.store(1);
  socket->references_.store(1, std::memory_order_release);
  return socket;
}

bool SocketPool::retain(Socket* socket) {
  std::uint32_t count = socket->references_.load(std::memory_order_relaxed);
  while (count != 0) {
    if (socket->references_.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

void SocketPool::give_back(Socket* socket) {
  socket->~Socket();
  auto* const free = reinterpret_cast<Free*>(socket);
  const LockGuard guard(g_lock);
  free->next = g_free;
  g_free = free;
}

void SocketPool::add_descriptor(Socket& socket) { socket.descriptors_.fetch_add(1); }
void SocketPool::remove_descriptor(Socket& socket) { socket.descriptors_.fetch_sub(1); }

// Held over fork.
void SocketPool::before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { g_lock.lock(); }
void SocketPool::after_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { g_lock.unlock(); }

SocketRef SocketCounts::reference() {
  references_.fetch_add(1, std::memory_order_relaxed);
  return SocketRef(static_cast<Socket*>(this));
}

SocketRef& SocketRef::operator=(SocketRef&& other) noexcept {
  if (this != &other) {
    reset();
    socket_ = other.socket_;
    other.socket_ = nullptr;
  }
  return *this;
}

void SocketRef::reset() {
  Socket* const socket = socket_;
  socket_ = nullptr;
  if (socket == nullptr) return;
  if (socket->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) SocketPool::give_back(socket);
}

}  // namespace viaduct::sovia
