// An event descriptor of the library's whose number the program may want for itself (dup2) while other threads
// use it. It moves to another number, and whoever may still go by the old one is waited for: else a thread would
// write into the program's file.
#ifndef VIADUCT_SOVIA_PROCESS_MOVABLE_EVENT_H
#define VIADUCT_SOVIA_PROCESS_MOVABLE_EVENT_H

#include <atomic>
#include <cstdint>

namespace viaduct::sovia {

class MovableEvent {
 public:
  // The number stays the event's while this lives. No event, or none made: -1.
  class Use {
   public:
    explicit Use(MovableEvent* event);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    int fd() const { return fd_; }

   private:
    MovableEvent* const event_;
    unsigned epoch_ = 0;
    int fd_ = -1;
  };

  constexpr MovableEvent() = default;
  MovableEvent(const MovableEvent&) = delete;
  MovableEvent& operator=(const MovableEvent&) = delete;

  // Opens it, if it isn't open; false if that can't be.
  bool open(unsigned count = 0);
  bool is_open() const { return fd_.load() >= 0; }
  void ring();
  void empty();

  // The program gets this number. If it is the event's, the event has another one when this returns, and nobody uses
  // the old one, which is still open: for dup2 to replace. Threads that sleep on it are woken, so it may have been
  // rung in the end. `anew`: a new event of that count in place of a copy; then nobody may sleep on it.
  // False: it is another number, or there is none to move to. One call at a time.
  bool move_from(int fd, const unsigned* anew = nullptr);

  // In a forked child, where nobody else uses it: closes the descriptor.
  void forget();

 private:
  std::atomic<int> fd_{-1};
  std::atomic<unsigned> epoch_{0};
  std::atomic<std::uint32_t> users_[2] = {};  // by the epoch in which they began
};

}  // namespace viaduct::sovia

#endif
