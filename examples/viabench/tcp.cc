#include "examples/viabench/tcp.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <vector>

#include "examples/common/nic.h"
#include "examples/viabench/senders.h"
#include "examples/viabench/socket_crowd.h"
#include "examples/viabench/socket_transfer.h"
#include "examples/viabench/socket_web.h"
#include "examples/viabench/tcp_socket.h"

namespace viabench {
namespace {

using via::Failure;

bool spins(const Case& c) { return c.wait == "poll"; }

void prepare(const Case& c, const Site& site) {
  enter_plain(site);
  if (c.offload == "kept" || c.offload == "-") return;
  switch_offload(site.tcp_link, c.offload == "on");
}

// ------------------------------------------------------------------------- connections

// The far end closes first: the port that then has to rest is the one that is always the same.
void connect_often(const Case& c, const Site& site, std::uint16_t port, const Reporter& report) {
  Clock::time_point start;
  for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) {
    if (i == warm_up(c)) start = Clock::now();
    TcpSocket::connect(site.peer, port, spins(c)).await_end();
  }
  const std::chrono::duration<double> whole = Clock::now() - start;
  report.value("connections_s", c.count / whole.count());
}

// ------------------------------------------------------------------------- many senders

void drink_from_all(const TcpListener& listener, const Case& c, const Reporter& report) {
  std::vector<TcpSocket> all;
  const Fd set(epoll_create1(EPOLL_CLOEXEC));
  for (std::uint32_t i = 0; i < c.others; ++i) {
    all.push_back(listener.accept());
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = all.back().fd();
    epoll_ctl(set.get(), EPOLL_CTL_ADD, all.back().fd(), &event);
  }
  const StreamTime time;
  for (const TcpSocket& s : all) s.send("", 1);
  const std::uint64_t messages = std::uint64_t{share_of_sender(c)} * c.others;
  std::vector<char> buffer(c.size);
  ProcessorTime processor("far", false);
  processor.begin();
  for (std::uint64_t left = messages * c.size; left > 0;) {
    epoll_event events[16];
    const int n = epoll_wait(set.get(), events, 16, int{kSilence.count()} * 1000);
    if (n <= 0) throw Failure("nothing comes");
    for (int i = 0; i < n; ++i) {
      const ssize_t got = recv(events[i].data.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got == 0) throw Failure("a sender has left");
      if (got > 0) left -= static_cast<std::uint64_t>(got);
    }
  }
  time.report(report);
  processor.report(report);
  for (const TcpSocket& s : all) s.send("", 1);
  report_arrivals(report, messages, messages, c.size);
}

void pour_from_many(const Case& c, const Site& site, std::uint16_t port, const Reporter& report) {
  run_senders(c, report, false, [&] {
    const TcpSocket s = TcpSocket::connect(site.peer, port, false);
    std::vector<char> message(c.size);
    char byte;
    s.receive(&byte, 1);
    for (std::uint32_t i = 0; i < share_of_sender(c); ++i) s.send(message.data(), message.size());
    s.receive(&byte, 1);
  });
}

}  // namespace

void tcp_near(const Case& c, const Site& site, const std::string& where, const Reporter& report) {
  prepare(c, site);
  const auto port = static_cast<std::uint16_t>(std::stoul(where));
  if (c.what == "connect") return connect_often(c, site, port, report);
  if (c.what == "senders") return pour_from_many(c, site, port, report);
  const auto connect = [&] { return TcpSocket::connect(site.peer, port, spins(c), c.level == "nagle"); };
  if (c.what == "web") return web_near(connect, c, report);
  if (is_crowd(c)) return crowd_near(connect, c, report, [](const TcpSocket&) {});
  const TcpSocket s = connect();
  transfer_near(s, c, report, false);
}

void tcp_far(const Case& c, const Site& site, const Reporter& report) {
  prepare(c, site);
  const TcpListener listener(spins(c));
  report.ready(std::to_string(listener.port()));
  if (c.what == "connect") {
    for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) listener.accept();
    return;
  }
  if (c.what == "senders") return drink_from_all(listener, c, report);
  if (c.what == "web") return web_far(listener, c);
  if (is_crowd(c)) return crowd_far(listener, c, report, [](const TcpSocket&) {});
  const TcpSocket s = listener.accept();
  transfer_far(s, c, report, false);
}

}  // namespace viabench
