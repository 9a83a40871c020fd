#include "examples/viabench/socket_web.h"

#include <algorithm>
#include <vector>

namespace viabench {
namespace {

constexpr std::size_t kRequest = 16;

std::uint32_t connections(const Case& c) { return std::max(c.count / c.others, 1u); }

}  // namespace

void web_near(const std::function<TcpSocket()>& connect, const Case& c, const Reporter& report) {
  const char request[kRequest] = {};
  std::vector<char> answer(c.size);
  std::vector<double> us;  // of a request, the connection's part included
  for (std::uint32_t i = 0; i < connections(c); ++i) {
    const Time start = Clock::now();
    const TcpSocket s = connect();
    for (std::uint32_t n = 0; n < c.others; ++n) {
      s.send(request, kRequest);
      s.receive(answer.data(), answer.size());
    }
    s.await_end();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / c.others);
  }
  std::sort(us.begin(), us.end());
  report.value("us", us[us.size() / 2]);
}

void web_far(const TcpListener& listener, const Case& c) {
  char request[kRequest];
  const std::vector<char> answer(c.size);
  for (std::uint32_t i = 0; i < connections(c); ++i) {
    const TcpSocket s = listener.accept();
    for (std::uint32_t n = 0; n < c.others; ++n) {
      s.receive(request, kRequest);
      s.send(answer.data(), answer.size());
    }
  }
}

}  // namespace viabench
