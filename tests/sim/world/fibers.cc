// Stacks are jumped between, which the C library would take for a fault.
#undef _FORTIFY_SOURCE
#include "tests/sim/world/fibers.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "tests/sim/world/failure.h"
#include "vipl/session/thread_registry.h"

namespace viaduct::sim {
namespace {

constexpr std::size_t kStack = std::size_t{1} << 19;  // little of it is touched
constexpr std::uint64_t kNever = ~0ull;

std::byte* new_stack() {
  void* const got = mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) fail("no memory for a fiber");
  mprotect(got, 4096, PROT_NONE);
  return static_cast<std::byte*>(got);
}

}  // namespace

void Fibers::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fibers*>(std::uintptr_t{high} << 32 | low);
  Fiber& fiber = *self->current_;
  fiber.work_();
  if (fiber.at_end != nullptr) fiber.at_end(fiber.at_end_argument);
  fiber.state = State::kEnded;
  self->go_back(fiber);
}

// The address sanitizer follows swapcontext only.
#ifdef __SANITIZE_ADDRESS__
void Fibers::go_to(Fiber& fiber) { swapcontext(&world_, &fiber.context_); }
void Fibers::go_back(Fiber& fiber) { swapcontext(&fiber.context_, &world_); }
#else
void Fibers::go_to(Fiber& fiber) {
  if (_setjmp(world_jump_) != 0) return;
  if (fiber.begun_) _longjmp(fiber.jump_, 1);
  fiber.begun_ = true;
  setcontext(&fiber.context_);
}
void Fibers::go_back(Fiber& fiber) {
  if (_setjmp(fiber.jump_) == 0) _longjmp(world_jump_, 1);
}
#endif

Fiber& Fibers::start(const void* owner, const char* name, std::function<void()> work) {
  auto made = std::make_unique<Fiber>();
  Fiber& fiber = *made;
  fiber.id = ++last_id_;
  fiber.owner = owner;
  fiber.name = name;
  fiber.work_ = std::move(work);
  if (stacks_.empty()) stacks_.push_back(new_stack());
  fiber.stack_ = stacks_.back();
  stacks_.pop_back();
  getcontext(&fiber.context_);
  fiber.context_.uc_stack.ss_sp = fiber.stack_;
  fiber.context_.uc_stack.ss_size = kStack;
  fiber.context_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&fiber.context_, reinterpret_cast<void (*)()>(enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  fibers_.push_back(std::move(made));
  return fiber;
}

void Fibers::resume(Fiber& fiber) {
  current_ = &fiber;
  vipl::thread_registry::t_record = fiber.record;
  go_to(fiber);
  fiber.record = vipl::thread_registry::t_record;
  vipl::thread_registry::t_record = nullptr;
  current_ = nullptr;
}

void Fibers::suspend(State state, std::uint64_t deadline) {
  Fiber& fiber = *current_;
  fiber.state = state;
  fiber.deadline = deadline;
  fiber.woken = false;
  fiber.calls = 0;
  if (state != State::kPreempted) fiber.yields = state == State::kYields ? fiber.yields + 1 : 0;
  go_back(fiber);
}

bool Fibers::run(std::uint64_t now, const std::function<bool(const void*)>& may_run,
                 const std::function<bool(const pollfd&)>& is_ready) {
  bool any = false;
  // Those that are started meanwhile have their turn too.
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = *fibers_[i];
    bool ready = fiber.woken || now >= fiber.deadline;
    switch (fiber.state) {
      case State::kReady:
        ready = true;
        break;
      case State::kPolls:
        ready = ready || std::any_of(fiber.polled.begin(), fiber.polled.end(), is_ready);
        break;
      case State::kYields:
      case State::kPreempted:
      case State::kOnWord:
        break;
      case State::kEnded:
        continue;
    }
    if (!ready || !may_run(fiber.owner)) continue;
    resume(fiber);
    any = true;
  }
  std::erase_if(fibers_, [this](const std::unique_ptr<Fiber>& fiber) {
    if (fiber->state != State::kEnded) return false;
    stacks_.push_back(fiber->stack_);
    return true;
  });
  return any;
}

std::uint64_t Fibers::next(std::uint64_t now,
                           const std::function<bool(const void*)>& may_run) const {
  std::uint64_t next = kNever;
  for (const auto& fiber : fibers_) {
    if (!may_run(fiber->owner)) continue;
    if (fiber->state == State::kReady || fiber->woken) return now;
    next = std::min(next, fiber->deadline);
  }
  return next;
}

void Fibers::wake(const void* word, int count) {
  for (const auto& fiber : fibers_) {
    if (count <= 0) return;
    if (fiber->state != State::kOnWord || fiber->word != word || fiber->woken) continue;
    fiber->woken = true;
    --count;
  }
}

bool Fibers::lives(int id) const {
  return std::any_of(fibers_.begin(), fibers_.end(), [id](const auto& fiber) {
    return fiber->id == id && fiber->state != State::kEnded;
  });
}

unsigned Fibers::count(const void* owner) const {
  return static_cast<unsigned>(
      std::count_if(fibers_.begin(), fibers_.end(), [owner](const auto& fiber) {
        return fiber->owner == owner && fiber->state != State::kEnded;
      }));
}

std::string Fibers::text() const {
  static constexpr const char* kStates[] = {"ready", "yields", "preempted", "on a word", "polls",
                                            "ended"};
  std::string out;
  for (const auto& fiber : fibers_) {
    out += std::string(" ") + fiber->name + " (" + kStates[static_cast<int>(fiber->state)] + ")";
  }
  return out;
}

std::vector<Fibers::Remains> Fibers::end(const std::function<bool(const Fiber&)>& which) {
  std::vector<Remains> left;
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = *fibers_[i];
    if (fiber.state == State::kEnded || !which(fiber)) continue;
    while (fiber.state == State::kPreempted) resume(fiber);
    if (fiber.state == State::kEnded) continue;
    fiber.state = State::kEnded;
    if (fiber.record != nullptr) left.push_back({fiber.record, fiber.at_end, fiber.at_end_argument});
  }
  return left;
}

void Fibers::retire(const Remains& thread) {
  vipl::thread_registry::t_record = thread.record;
  thread.record->command = 0;  // its session ends too
  thread.at_end(thread.at_end_argument);
}

void Fibers::disown(const void* owner) {
  for (const auto& fiber : fibers_) {
    if (fiber->owner == owner) fiber->owner = nullptr;
  }
}

}  // namespace viaduct::sim
