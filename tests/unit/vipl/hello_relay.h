// Stands between libvipl and its agent while a session is opened, and may spoil what the agent answers.
// One connection; it lasts as long as the relay.
#ifndef VIADUCT_TESTS_UNIT_VIPL_HELLO_RELAY_H
#define VIADUCT_TESTS_UNIT_VIPL_HELLO_RELAY_H

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kagent/contract/control.h"
#include "tests/unit/agent/agent_fixture.h"
#include "xdp/descriptor.h"

namespace viaduct::test {

class HelloRelay {
 public:
  // May change the answer and the descriptors that come with it.
  using Spoil = std::function<void(control::HelloAnswer& answer, std::vector<Descriptor>& descriptors)>;

  // Points $VIADUCT_SOCKET at itself, for the agent that it names now.
  explicit HelloRelay(Spoil spoil)
      : agent_(getenv(control::kSocketVariable)), spoil_(std::move(spoil)), socket_(agent_ + "-relay") {
    setenv(control::kSocketVariable, (agent_ + "-relay").c_str(), 1);
    thread_ = std::thread([this] { relay(); });
  }
  ~HelloRelay() {
    if (thread_.joinable()) thread_.join();
    setenv(control::kSocketVariable, agent_.c_str(), 1);
  }

  // The device asked for; waits until it has been.
  const std::string& device() {
    thread_.join();
    return device_;
  }

 private:
  void relay() {
    pollfd asked{socket_.fd(), POLLIN, 0};
    poll(&asked, 1, -1);
    library_ = Descriptor(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    control::Hello hello{};
    if (recv(library_.get(), &hello, sizeof hello, 0) != sizeof hello) return library_.close();
    device_ = hello.device;
    program_.say(hello);
    pollfd answered{program_.fd(), POLLIN, 0};
    poll(&answered, 1, -1);
    auto answer = program_.answer();
    if (!answer) return library_.close();
    spoil_(answer->hello, answer->fds);
    std::vector<int> fds;
    for (const Descriptor& each : answer->fds) fds.push_back(each.get());
    send_message(library_.get(), &answer->hello, sizeof answer->hello, fds);
  }

  std::string agent_, device_;
  Spoil spoil_;
  ListenSocket socket_;
  TestProgram program_{agent_};
  Descriptor library_;
  std::thread thread_;
};

}  // namespace viaduct::test

#endif
