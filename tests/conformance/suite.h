// Included by each test file: the fixtures, with all of the vocabulary.
//
//     TEST_P(SemanticsOrder, MessagesArriveInTheOrderInWhichTheyWereSent) {
//       CHECKLIST(7);
//       auto [a, b] = connected(level());
//       Region out = near.memory(4096), in = far.memory(4096);
//       ...
//     }
//
// Each test begins with a NIC handle of its own on either host and a fresh peer process; at its end
// both are closed.
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "objects.h"
#include "options.h"
#include "printing.h"
#include "started.h"

namespace conformance {

class Conformance : public testing::Test {
 protected:
  HostPtr here;   // this process
  HostPtr there;  // the peer's process (with --peer self: this one as well)
  Nic near, far;  // a NIC handle here, one there

  void SetUp() override;
  void TearDown() override;

  // One more process at the peer, or one more set of objects in this one. For Nic::open.
  HostPtr another_there();
  HostPtr another_here();
  Nic open_near() { return must(Nic::open(here, options.device)); }
  Nic open_far() { return must(Nic::open(there, options.peer_device)); }

  // A discriminator that was never used before.
  static std::string fresh();

  // Two VIs, `first` of near and `second` of far (or of the given NICs), connected.
  std::pair<Vi, Vi> connected(VIP_RELIABILITY_LEVEL level);
  std::pair<Vi, Vi> connected_rdma(VIP_RELIABILITY_LEVEL level);  // RDMA allowed on both
  // Connects existing ones: `server` waits and accepts, `client` requests. Throws if it fails.
  void connect(const Nic& client_nic, const Vi& client, const Nic& server_nic, const Vi& server);
  void connect(const Vi& client, const Vi& server) { connect(near, client, far, server); }

  // Properties of this run.
  bool two_hosts() const;  // the NICs have different addresses
  bool two_processes() const { return !options.self(); }

  // Ends the peer's process as a crash would. Only with two_processes().
  void kill_peer(const HostPtr& host);
  // The peer's process ends of itself: it is not asked for anything any more.
  void peer_ends(const HostPtr& host) { killed_.push_back(host); }
  // The peer's process posts this send `count` times on its `vi` and calls exit at once.
  void post_and_leave(const Vi& vi, const Descriptor& descriptor, std::uint32_t count);

 private:
  void close(const HostPtr& host);

  std::vector<HostPtr> hosts_;
  std::vector<HostPtr> killed_;
};

inline constexpr VIP_RELIABILITY_LEVEL kLevels[] = {
    VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION};

// For test suites that run once for each reliability level that the NIC has.
class EachLevel : public Conformance, public testing::WithParamInterface<VIP_RELIABILITY_LEVEL> {
 protected:
  void SetUp() override;
  static VIP_RELIABILITY_LEVEL level() { return GetParam(); }
  static bool reliable() { return level() != VIP_SERVICE_UNRELIABLE; }
};
std::string level_name(VIP_RELIABILITY_LEVEL level);

#define ON_EACH_LEVEL(Suite)                                                                      \
  INSTANTIATE_TEST_SUITE_P(, Suite,                                                               \
                           testing::Values(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, \
                                           VIP_SERVICE_RELIABLE_RECEPTION),                       \
                           [](const auto& info) { return ::conformance::level_name(info.param); })
#define ON_RELIABLE_LEVELS(Suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      , Suite, testing::Values(VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION), \
      [](const auto& info) { return ::conformance::level_name(info.param); })

// This test proves item `number` of the reference's checklist (section 6.3), if it passes.
#define CHECKLIST(number) ::conformance::covers_checklist(number)
void covers_checklist(int number);

// Skips the test, with a reason, in runs where it can't be made.
#define NEEDS(condition, reason)                \
  do {                                          \
    if (!(condition)) GTEST_SKIP() << (reason); \
  } while (false)
#define NEEDS_TWO_HOSTS() NEEDS(two_hosts(), "needs a peer on another host")
#define NEEDS_TWO_PROCESSES() NEEDS(two_processes(), "needs a peer in another process")
#define NEEDS_CUT() \
  NEEDS(two_hosts() && !options.cut.empty(), "needs --cut and --mend, and a peer on another host")
#define NEEDS_KILL()                                   \
  NEEDS(two_hosts() && !options.kill_provider.empty(), \
        "needs --kill-provider and --start-provider, and a peer on another host")

// A function that not every provider has, or nullptr; call it with VIP_OPTIONAL:
//     auto* add = optional_function<VIP_RETURN(VIP_CQ_HANDLE, void**, VIP_ULONG, VIP_ULONG)>(
//         "VipAddTagCQ");
//     NEEDS(add != nullptr, "the provider does not have it");
//     EXPECT_EQ(VIP_OPTIONAL(AddTagCQ, add, cq, &event, 1, 0), VIP_ERROR_NOT_SUPPORTED);
template <class F>
F* optional_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}
#define VIP_OPTIONAL(name, function, ...)                        \
  ::conformance::make_recorded(::conformance::Function::k##name, \
                               [&] { return function(__VA_ARGS__); })

// The link between the hosts is down while one of these exists.
class Cut {
 public:
  Cut();
  ~Cut() { mend(); }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;
  void mend();

 private:
  bool cut_ = true;
};

// The provider on the test host is gone while one of these exists.
class NoProvider {
 public:
  NoProvider();
  ~NoProvider() { start(); }
  NoProvider(const NoProvider&) = delete;
  NoProvider& operator=(const NoProvider&) = delete;
  void start();

 private:
  bool gone_ = true;
};

}  // namespace conformance

#endif
