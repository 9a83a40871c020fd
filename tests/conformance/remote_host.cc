#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "control_channel.h"
#include "host.h"

namespace conformance {

bool send_all(int fd, const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int fd, std::size_t size, std::string* bytes) {
  bytes->resize(size);
  for (std::size_t got = 0; got < size;) {
    const ssize_t n = recv(fd, bytes->data() + got, size - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += static_cast<std::size_t>(n);
  }
  return true;
}

bool send_frame(int fd, const std::string& bytes) {
  Writer frame;
  frame(bytes);
  return send_all(fd, frame.bytes);
}

bool receive_frame(int fd, std::string* bytes) {
  if (!receive_all(fd, 4, bytes)) return false;
  std::uint32_t size = 0;
  Reader reader(*bytes);
  reader(size);
  return receive_all(fd, size, bytes);
}

namespace {

int connect_to(const std::string& host, const std::string& port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found)) {
    throw PeerLost("the peer host " + host + ": " + gai_strerror(error));
  }
  int fd = -1, error = 0;
  for (const addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
    fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
      error = errno;
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  if (fd < 0) {
    throw PeerLost("no vipl-conformance --serve on " + host + " port " + port + ": " +
                   std::strerror(error));
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

class RemoteHost : public Host {
 public:
  RemoteHost(std::string name, const std::string& host, const std::string& port)
      : Host(std::move(name)), fd_(connect_to(host, port)) {
    std::string greeting;
    if (!receive_all(fd_, sizeof kGreeting - 1, &greeting) || greeting != kGreeting) {
      close(fd_);
      throw PeerLost("what listens on " + host + " port " + port +
                     " is not this version of vipl-conformance");
    }
    reader_ = std::thread([this] { receive(); });
  }

  ~RemoteHost() override {
    shutdown(fd_, SHUT_RDWR);
    reader_.join();
    close(fd_);
  }

 private:
  struct Answer {
    bool good = false;
    std::string bytes;
  };

  std::string perform_elsewhere(OpNumber number, std::string arguments) override {
    Writer request;
    std::uint64_t call = 0;
    {
      const std::lock_guard lock(mutex_);
      call = ++last_call_;
      request(call, static_cast<std::uint16_t>(number));
      request.bytes += arguments;
      if (!lost_ && !send_frame(fd_, request.bytes)) lost_ = true;
    }
    std::unique_lock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + patience();
    const bool in_time =
        changed_.wait_until(lock, end, [&] { return lost_ || answers_.contains(call); });
    const auto found = answers_.find(call);
    if (found == answers_.end()) {
      const std::string what = std::string(operation(number).name) + " on " + name();
      if (in_time) {
        throw PeerLost(what + ": the peer process has ended (its own output may say why)");
      }
      throw Hung(what + " has not returned for " + std::to_string(patience().count() / 1000) +
                 " s");
    }
    const Answer answer = std::move(found->second);
    answers_.erase(found);
    lock.unlock();
    if (!answer.good) throw std::runtime_error(name() + ": " + answer.bytes);
    return answer.bytes;
  }

  void receive() {
    std::string frame;
    while (receive_frame(fd_, &frame) && frame.size() >= 9) {
      std::uint64_t call = 0;
      Answer answer;
      Reader reader(frame);
      reader(call, answer.good);
      answer.bytes = frame.substr(9);
      const std::lock_guard lock(mutex_);
      answers_[call] = std::move(answer);
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    lost_ = true;
    changed_.notify_all();
  }

  const int fd_;
  std::thread reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Answer> answers_;
  std::uint64_t last_call_ = 0;
  bool lost_ = false;
};

}  // namespace

HostPtr make_remote_host(std::string name, const std::string& host, const std::string& port) {
  return std::make_shared<RemoteHost>(std::move(name), host, port);
}

}  // namespace conformance
