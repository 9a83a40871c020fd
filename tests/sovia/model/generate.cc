// generate: the operations of a program. A rough picture of what has been sent and read makes receives likely to find
// something; what really happens is the model's to say.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>

#include "program.h"

namespace model {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const Kinds& kinds) : random_(seed * 0x9e3779b97f4a7c15ULL + 1), kinds_(kinds) {
    program_.seed = seed;
  }

  Program make() {
    static constexpr Warmth kWarmths[] = {Warmth::kWarm, Warmth::kWarm, Warmth::kWarm, Warmth::kRising, Warmth::kCold};
    program_.connections = chance(60) ? 1 : chance(60) ? 2 : 3;
    for (int c = 0; c < program_.connections; ++c) {
      program_.warmth[c] = kWarmths[below(5)];
      program_.no_delay[c] = chance(85);
    }
    settles_ = below(3) * 30 + 15;
    // A few kinds of calls make up most of a program, others in others: so rare combinations come about.
    for (unsigned& weight : weights_) weight = chance(60) ? 1 + below(4) : 0;
    const unsigned count = 4 + below(chance(20) ? 60 : 24);
    while (program_.operations.size() < count) step();
    return program_;
  }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool chance(unsigned percent) { return below(100) < percent; }

  int end_of(int process) const { return process < kFirstChild ? process % 2 : child_end_[process - kFirstChild]; }

  int some_process() {
    if (children_ > 0 && chance(35)) return kFirstChild + static_cast<int>(below(children_));
    if (passed_ && chance(25)) return 2 + static_cast<int>(below(2));
    return static_cast<int>(below(2));
  }

  int some_slot() {
    if (copies_ && chance(30)) return static_cast<int>(below(kSlots));
    return static_cast<int>(below(static_cast<unsigned>(program_.connections)));
  }

  std::uint32_t some_size() {
    const unsigned kind = below(100);
    if (kind < 4) return 0;
    if (kind < 40) return 1 + below(16);
    if (kind < 65) return 1 + below(512);
    if (kind < 85) return 1 + below(6000);
    if (kind < 95) return 1 + below(70000);
    if (kind < 98) return 1 + below(300000);
    return 1 + below(1u << 20);
  }

  void add(Operation operation) { program_.operations.push_back(operation); }

  void settle() { add({.op = Op::kSettle}); }

  void send(Operation o) {
    o.op = Op::kSend;
    o.style = static_cast<int>(below(4));
    o.size = some_size();
    if (o.style == 0 || o.style == 3) {
      o.flags = (chance(60) ? MSG_NOSIGNAL : 0) | (chance(40) ? MSG_DONTWAIT : 0) | (chance(8) ? MSG_MORE : 0);
    }
    unread_[end_of(o.process)][o.slot % kConnections] += o.size;
    add(o);
    if ((o.flags & MSG_MORE) == 0 || chance(15)) return;
    o.flags &= ~MSG_MORE;
    o.size = 1 + below(40);
    add(o);
  }

  void receive(Operation o) {
    o.op = Op::kReceive;
    o.style = static_cast<int>(below(4));
    unsigned& unread = unread_[1 - end_of(o.process)][o.slot % kConnections];
    const unsigned kind = below(10);
    o.size = kind < 4 ? unread : kind < 7 && unread > 0 ? 1 + below(unread) : some_size();
    o.size = std::min(o.size, 1u << 20);
    if (o.style == 0 || o.style == 3) {
      o.flags = (chance(12) ? MSG_PEEK : 0) | (chance(15) ? MSG_WAITALL : 0) | (chance(5) ? MSG_TRUNC : 0);
      if (unread == 0 ? chance(80) : chance(50)) o.flags |= MSG_DONTWAIT;
    } else if (unread == 0 && chance(60)) {
      return;
    }
    if ((o.flags & MSG_PEEK) == 0) unread -= std::min(unread, o.size);
    add(o);
  }

  // Operations that a program has by its weights.
  using Maker = void (Generator::*)(Operation);
  void shutdown(Operation o) {
    o.op = Op::kShutdown;
    o.other = chance(60) ? SHUT_WR : static_cast<int>(below(3));
    add(o);
  }
  void close(Operation o) {
    o.op = Op::kClose;
    add(o);
  }
  void copy(Operation o) {
    o.op = chance(60) ? Op::kDup : Op::kDup2;
    o.other = static_cast<int>(below(kSlots));
    copies_ = true;
    add(o);
  }
  void fork(Operation o) {
    if (children_ == kProcesses - kFirstChild || (children_ > 0 && chance(50))) return;
    o.op = Op::kFork;
    child_end_[children_] = end_of(o.process);
    o.other = kFirstChild + static_cast<int>(children_++);
    add(o);
  }
  void exit(Operation o) {
    if (o.process < kFirstChild) return;
    o.op = Op::kExit;
    add(o);
  }
  void pass(Operation o) {
    o.op = Op::kPass;
    o.other = 2 + end_of(o.process);
    passed_ = true;
    add(o);
  }
  void epoll(Operation o) {
    static constexpr Op kOps[] = {Op::kEpollAdd,  Op::kEpollAdd,  Op::kEpollModify,
                                  Op::kEpollWait, Op::kEpollWait, Op::kEpollDelete};
    static constexpr std::uint32_t kWanted[] = {EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLRDHUP, EPOLLOUT};
    o.op = epolls_ ? kOps[below(6)] : Op::kEpollAdd;
    epolls_ = true;
    o.flags = static_cast<int>(kWanted[below(4)] | (chance(25) ? EPOLLET : 0U) | (chance(20) ? EPOLLONESHOT : 0U));
    add(o);
  }
  void look(Operation o) {
    static constexpr Op kOps[] = {Op::kPoll, Op::kPoll, Op::kSelect, Op::kUnread, Op::kUnread, Op::kPollWait};
    o.op = kOps[below(6)];
    add(o);
  }
  void option(Operation o) {
    static constexpr Op kOps[] = {Op::kLinger, Op::kTimeLimit, Op::kNonblocking, Op::kError};
    o.op = kOps[below(4)];
    o.other = o.op == Op::kTimeLimit ? static_cast<int>(4 + below(12)) : chance(60);
    add(o);
  }
  void signal(Operation o) {
    o.op = chance(60) ? Op::kSignal : Op::kRestart;
    add(o);
  }
  void stop(Operation o) {
    o.op = stopped_[static_cast<std::size_t>(o.process)] ? Op::kContinue : Op::kStop;
    if (o.op == Op::kStop && !chance(20)) return;
    stopped_[static_cast<std::size_t>(o.process)] ^= true;
    add(o);
  }
  void kill(Operation o) {
    if (!kinds_.kills || !chance(o.process < kFirstChild ? 8 : 40)) return;
    o.op = Op::kKill;
    add(o);
  }

  void step() {
    static constexpr Maker kMakers[] = {&Generator::shutdown, &Generator::close, &Generator::copy,  &Generator::fork,
                                        &Generator::exit,     &Generator::pass,  &Generator::epoll, &Generator::epoll,
                                        &Generator::look,     &Generator::look,  &Generator::option, &Generator::signal,
                                        &Generator::stop,     &Generator::kill};
    static_assert(std::size(kMakers) == kWeights);
    Operation o;
    o.process = some_process();
    o.slot = some_slot();
    const unsigned kind = below(100);
    if (kind < 30) {
      send(o);
    } else if (kind < 60) {
      receive(o);
    } else {
      const unsigned which = below(kWeights);
      if (below(4) < weights_[which]) (this->*kMakers[which])(o);
    }
    if (chance(settles_)) settle();
  }

  static constexpr unsigned kWeights = 14;
  std::mt19937_64 random_;
  Kinds kinds_;
  Program program_;
  unsigned settles_ = 0;
  std::array<unsigned, kWeights> weights_{};
  unsigned unread_[2][kConnections] = {};
  std::array<bool, kProcesses> stopped_{};
  int child_end_[kProcesses - kFirstChild] = {};
  unsigned children_ = 0;
  bool copies_ = false, passed_ = false, epolls_ = false;
};

}  // namespace

Program generate(std::uint64_t seed, const Kinds& kinds) { return Generator(seed, kinds).make(); }

}  // namespace model
