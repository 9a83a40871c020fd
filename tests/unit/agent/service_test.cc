// The service's loop, in a thread of its own: an interface that goes and comes back.
#include "kagent/agent/service/service.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "kagent/agent/control/counters_client.h"
#include "kagent/agent/process/log.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/agent/every_counter.h"

namespace viaduct {
namespace {

class MortalPort final : public SilentPort {
 public:
  explicit MortalPort(std::atomic<bool>& alive) : SilentPort(1), alive_(alive) {}
  bool alive() const override { return alive_; }

 private:
  std::atomic<bool>& alive_;
};

std::uint64_t value_of(const std::string& socket, const std::string& name) {
  const std::string text = fetch_counters(socket);
  const std::string row = "\nviaduct_service_" + name + " ";
  const std::size_t at = text.find(row);
  if (at == std::string::npos) throw std::runtime_error("no counter " + name);
  return std::stoull(text.substr(at + row.size()));
}

TEST(Service, WaitsForAnInterfaceThatIsDown) {
  log::open(log::Target::kStandardError, "", "off");
  Config config = TestAgent::small_config();
  config.nics.resize(1);
  std::atomic<bool> up{false}, alive{true};
  const Descriptor stop(eventfd(0, EFD_CLOEXEC));
  Service service(config, [&](const NicConfig&) {
    if (!up) throw InterfaceDown("via0 is down");
    return std::make_unique<MortalPort>(alive);
  });
  service.loop().add(stop.get(), EPOLLIN, [&](std::uint32_t) { service.stop(); });
  service.start();
  std::thread thread([&] { service.run(); });
  TestProgram early(config.socket);
  early.say(TestProgram::hello());
  std::optional<TestProgram::Answer> answer;
  while (!(answer = early.answer())) usleep(1000);
  EXPECT_EQ(answer->hello.head.result, vip::kErrorResource);
  EXPECT_NE(std::string(answer->hello.reason).find("via0 is down"), std::string::npos);
  up = true;
  while (value_of(config.socket, "port_returns") == 0) usleep(10'000);
  TestProgram late(config.socket);
  late.say(TestProgram::hello());
  while (!(answer = late.answer())) usleep(1000);
  EXPECT_EQ(answer->hello.head.result, vip::kSuccess);
  const std::uint64_t one = 1;
  EXPECT_EQ(write(stop.get(), &one, sizeof one), 8);
  thread.join();
}

TEST(Service, CountsItsRoundsAndTheInterfacesThatGoAndComeBack) {
  log::open(log::Target::kStandardError, "", "off");
  Config config = TestAgent::small_config();
  config.nics.resize(1);
  std::atomic<bool> alive{true};
  const Descriptor stop(eventfd(0, EFD_CLOEXEC));
  Service service(config, [&](const NicConfig&) {
    if (!alive) throw PortError("no such interface");
    return std::make_unique<MortalPort>(alive);
  });
  service.loop().add(stop.get(), EPOLLIN, [&](std::uint32_t) { service.stop(); });
  service.start();
  std::thread thread([&] { service.run(); });
  EXPECT_EQ(value_of(config.socket, "port_losses"), 0u);
  alive = false;
  while (value_of(config.socket, "port_losses") == 0) usleep(1000);
  EXPECT_EQ(value_of(config.socket, "port_returns"), 0u);
  alive = true;
  while (value_of(config.socket, "port_returns") == 0) usleep(10'000);
  for (const std::string& name : kOfServiceTest) {
    EXPECT_GT(value_of(config.socket, name), 0u) << name;
  }
  const std::uint64_t one = 1;
  EXPECT_EQ(write(stop.get(), &one, sizeof one), 8);
  thread.join();
}

}  // namespace
}  // namespace viaduct
