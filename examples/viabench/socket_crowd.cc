#include "examples/viabench/socket_crowd.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "examples/common/nic.h"

namespace viabench {
namespace {

using via::Failure;

std::uint32_t share(const Case& c) { return std::max(c.count / c.others, 1u); }

// Runs work(i) in a thread for each connection; throws what one of them has thrown.
template <typename Work>
void in_threads(std::uint32_t count, Work work) {
  std::vector<std::thread> threads;
  std::mutex lock;
  std::string failure;
  for (std::uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (const std::exception& error) {
        const std::scoped_lock guard(lock);
        failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) throw Failure(failure);
}

// ------------------------------------------------------------------------- the near end

void send_all(const TcpSocket& s, const Case& c) {
  std::vector<char> message(c.size);
  for (std::uint32_t i = 0; i < share(c); ++i) s.send(message.data(), message.size());
  char done;
  s.receive(&done, 1);
}

void receive_all(const TcpSocket& s, const Case& c) {
  std::vector<char> message(c.size);
  for (std::uint32_t i = 0; i < share(c); ++i) s.receive(message.data(), message.size());
}

std::vector<float> exchange_all(const TcpSocket& s, const Case& c) {
  std::vector<char> message(c.size);
  std::vector<float> us;
  for (std::uint32_t i = 0; i < share(c); ++i) {
    const Time start = Clock::now();
    s.send(message.data(), message.size());
    s.receive(message.data(), message.size());
    us.push_back(std::chrono::duration<float, std::micro>(Clock::now() - start).count() / 2);
  }
  return us;
}

void measure_hotspot(const std::vector<TcpSocket>& all, const Case& c, const Reporter& report) {
  std::vector<float> us;
  std::mutex lock;
  in_threads(c.others, [&](std::uint32_t i) {
    const std::vector<float> own = exchange_all(all[i], c);
    const std::scoped_lock guard(lock);
    us.insert(us.end(), own.begin(), own.end());
  });
  std::sort(us.begin(), us.end());
  report.value("us", double(us[us.size() / 2]));
}

// ------------------------------------------------------------------------- the far end

class Readable {
 public:
  explicit Readable(const std::vector<TcpSocket>& all) : all_(all), set_(epoll_create1(EPOLL_CLOEXEC)) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      epoll_ctl(set_.get(), EPOLL_CTL_ADD, all[i].fd(), &event);
    }
  }
  // Calls each(socket) for those that can be read.
  template <typename Each>
  void wait(Each each) const {
    epoll_event events[16];
    const int n = epoll_wait(set_.get(), events, 16, int{kSilence.count()} * 1000);
    if (n <= 0) throw Failure("nothing comes");
    for (int i = 0; i < n; ++i) each(all_[events[i].data.u64]);
  }

 private:
  const std::vector<TcpSocket>& all_;
  const Fd set_;
};

void take_all(const std::vector<TcpSocket>& all, const Case& c) {
  const Readable readable(all);
  std::vector<char> buffer(c.size);
  for (std::uint64_t left = std::uint64_t{share(c)} * c.others * c.size; left > 0;) {
    readable.wait([&](const TcpSocket& s) {
      const ssize_t got = recv(s.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got == 0) throw Failure("a sender has left");
      if (got > 0) left -= static_cast<std::uint64_t>(got);
    });
  }
  for (const TcpSocket& s : all) s.send("", 1);
}

void answer_all(const std::vector<TcpSocket>& all, const Case& c) {
  const Readable readable(all);
  std::vector<char> message(c.size);
  for (std::uint64_t left = std::uint64_t{share(c)} * c.others; left > 0;) {
    readable.wait([&](const TcpSocket& s) {
      s.receive(message.data(), message.size());
      s.send(message.data(), message.size());
      --left;
    });
  }
}

void give_all(const std::vector<TcpSocket>& all, const Case& c) {
  std::vector<char> message(c.size);
  for (std::uint32_t i = 0; i < share(c); ++i) {
    for (const TcpSocket& s : all) s.send(message.data(), message.size());
  }
}

}  // namespace

bool is_crowd(const Case& c) {
  return c.what == "streams" || c.what == "fanin" || c.what == "fanout" || c.what == "hotspot";
}

void crowd_near(const std::function<TcpSocket()>& connect, const Case& c, const Reporter& report, const Warm& warm) {
  std::vector<TcpSocket> all;
  for (std::uint32_t i = 0; i < c.others; ++i) {
    all.push_back(connect());
    warm(all.back());
  }
  if (c.what == "hotspot") return measure_hotspot(all, c, report);
  const bool receives = c.what == "fanout";
  if (receives) all[0].send("", 1);
  const StreamTime time;
  in_threads(c.others, [&](std::uint32_t i) { receives ? receive_all(all[i], c) : send_all(all[i], c); });
  time.report(report);
  const std::uint64_t messages = std::uint64_t{share(c)} * c.others;
  report_arrivals(report, messages, messages, c.size);
}

void crowd_far(const TcpListener& listener, const Case& c, const Reporter&, const Warm& warm) {
  std::vector<TcpSocket> all;
  for (std::uint32_t i = 0; i < c.others; ++i) {
    all.push_back(listener.accept());
    warm(all.back());
  }
  char begin;
  if (c.what == "hotspot") return answer_all(all, c);
  if (c.what == "fanin") return take_all(all, c);
  if (c.what == "fanout") {
    all[0].receive(&begin, 1);
    return give_all(all, c);
  }
  in_threads(c.others, [&](std::uint32_t i) {
    receive_all(all[i], c);
    all[i].send("", 1);
  });
}

}  // namespace viabench
