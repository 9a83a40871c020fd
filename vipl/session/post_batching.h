// Whether a program that posts comes back soon to look for completions.
//
// While messages of the program are on their way and it comes back soon, a post may wait until the program has looked
// several times in a row, and so has nothing more to post, or until an answer comes. Small messages then share a
// frame. This is learnt from what the program has done so far: if it comes late, or the progress thread had to send
// for it, it must show again that it comes back soon.
//
// One thread at a time. Times are CLOCK_MONOTONIC in ns, of the caller's last look at the clock.
#ifndef VIADUCT_VIPL_SESSION_POST_BATCHING_H
#define VIADUCT_VIPL_SESSION_POST_BATCHING_H

#include <cstdint>

namespace viaduct::vipl {

class PostBatching {
 public:
  static constexpr std::uint32_t kSure = 32;        // times in a row, then it is a post_batching
  static constexpr std::uint64_t kSoonNs = 20'000;  // from the post to the look
  static constexpr std::uint32_t kMostPosts = 16;   // that wait at once
  static constexpr std::uint32_t kLooks = 4;        // in a row: it waits

  // The program posts. True if that may wait.
  bool posts(std::uint64_t now) {
    awaited_ = true;
    posted_at_ = now;
    in_vain_ = 0;
    return sureness_ == kSure && waiting_ < kMostPosts;
  }
  void waits() { ++waiting_; }
  void sent() { waiting_ = 0; }

  // The program looks, and nothing has come. True if waiting posts may go on waiting.
  bool holds_on() { return waiting_ != 0 && ++in_vain_ < kLooks; }

  // The program looks, and waiting posts are sent.
  void looks(std::uint64_t now) {
    waiting_ = 0;
    if (!awaited_) return;
    awaited_ = false;
    if (now - posted_at_ > kSoonNs) {
      sureness_ = 0;
    } else if (sureness_ < kSure) {
      ++sureness_;
    }
  }

  // The progress thread sends, as the program is away.
  void is_away() {
    if (waiting_ != 0) sureness_ = waiting_ = 0;
  }

 private:
  std::uint32_t sureness_ = 0;
  std::uint32_t waiting_ = 0;  // posts that wait
  std::uint32_t in_vain_ = 0;  // looks since the last post
  bool awaited_ = false;       // the program has posted and not looked since
  std::uint64_t posted_at_ = 0;
};

}  // namespace viaduct::vipl

#endif
