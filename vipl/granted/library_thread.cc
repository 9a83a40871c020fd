#include "vipl/granted/library_thread.h"

#include "vipl/process/idle.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"

namespace viaduct::vipl {

bool LibraryThread::start(const char* name, void (*body)(void*), void* of) {
  name_ = name, body_ = body, of_ = of;
  return make_thread(run, this, kStack);
}

void* LibraryThread::run(void* thread) {
  auto& self = *static_cast<LibraryThread*>(thread);
  sys::name_thread(self.name_);
  // With a longer slice than the program's threads, which yield, it would wait many of their turns for its next one.
  sys::shorten_slice(0);
  self.id_.store(static_cast<std::uint32_t>(sys::thread()));
  self.body_(self.of_);
  self.gone_.store(1);
  sys::futex_wake(self.gone_);
  return nullptr;
}

void LibraryThread::dismiss() {
  stopping_.store(true);
  word_.store(1);
  sys::futex_wake(word_);
}

void LibraryThread::stop() {
  while (gone_.load() == 0) sys::futex_wait(gone_, 0, kNever);
  await_thread_end(this);
}

void LibraryThread::end_long_rest() {
  if (!resting_.exchange(false)) return;
  word_.store(1);
  sys::futex_wake(word_);
}

void LibraryThread::sleep(std::uint64_t ns) { sys::futex_wait(word_, 0, now_ns() + ns); }

}  // namespace viaduct::vipl
