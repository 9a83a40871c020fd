#include "suite.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

#include "coverage.h"

namespace conformance {
namespace {

std::set<int> checklist_of_test;

void run_hook(const std::string& command) {
  const int status = std::system(command.c_str());
  if (status != 0) throw std::runtime_error("the command \"" + command + "\" failed");
}

// In destructors too, so it does not throw.
void undo_hook(const std::string& command) {
  if (std::system(command.c_str()) != 0)
    ADD_FAILURE() << "the command \"" << command << "\" failed";
}

}  // namespace

void Conformance::SetUp() {
  checklist_of_test.clear();
  here = another_here();
  there = another_there();
  near = must(Nic::open(here, options.device));
  far = must(Nic::open(there, options.peer_device));
  note_nics(near.attributes(), far.attributes());
}

void Conformance::TearDown() {
  for (const HostPtr& host : hosts_) close(host);
  const std::string hung = await_all_started(patience());
  if (!hung.empty()) {
    ADD_FAILURE() << "has not returned although its NIC was closed: started at" << hung;
  }
  hosts_.clear();
  if (!HasFailure() && !IsSkipped()) {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    for (const int number : checklist_of_test) {
      note_checklist(number, std::string(test->test_suite_name()) + "." + test->name());
    }
  }
}

// Closes a host's NICs and takes its records.
void Conformance::close(const HostPtr& host) {
  if (std::find(killed_.begin(), killed_.end(), host) != killed_.end()) return;
  try {
    const Counts counts = host->call<op::finish>();
    if (!host->is_this_process()) add_recorded(counts);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "closing the NICs: " << e.what();
  }
}

HostPtr Conformance::another_here() {
  hosts_.push_back(make_local_host("this host"));
  return hosts_.back();
}

HostPtr Conformance::another_there() {
  hosts_.push_back(options.self() ? make_local_host("the peer (in this process)")
                                  : make_remote_host("the peer host", options.peer, options.port));
  return hosts_.back();
}

std::string Conformance::fresh() {
  static std::atomic<std::uint32_t> last{0};
  // 8 characters: all providers take that many.
  char text[16];
  std::snprintf(text, sizeof text, "%04x%04x", static_cast<unsigned>(getpid()) & 0xffff,
                ++last & 0xffff);
  return text;
}

std::pair<Vi, Vi> Conformance::connected(VIP_RELIABILITY_LEVEL level) {
  ViAttributes mine = near.vi_attributes(level), theirs = far.vi_attributes(level);
  mine.max_transfer_size = theirs.max_transfer_size =
      std::min(mine.max_transfer_size, theirs.max_transfer_size);
  const Vi a = must(near.create_vi(mine)), b = must(far.create_vi(theirs));
  connect(a, b);
  return {a, b};
}

std::pair<Vi, Vi> Conformance::connected_rdma(VIP_RELIABILITY_LEVEL level) {
  ViAttributes mine = near.rdma_vi_attributes(level), theirs = far.rdma_vi_attributes(level);
  mine.max_transfer_size = theirs.max_transfer_size =
      std::min(mine.max_transfer_size, theirs.max_transfer_size);
  const Vi a = must(near.create_vi(mine)), b = must(far.create_vi(theirs));
  connect(a, b);
  return {a, b};
}

void Conformance::connect(const Nic& client_nic, const Vi& client, const Nic& server_nic,
                          const Vi& server) {
  const Address to = server_nic.address(fresh()), from = client_nic.address(fresh());
  auto accepted = start([=] {
    const Incoming incoming = server_nic.connect_wait(to);
    if (incoming.code != VIP_SUCCESS) return static_cast<Result>(incoming);
    return server.connect_accept(incoming.conn);
  });
  const Outgoing outgoing = client.connect_request(from, to, kSoon);
  must(accepted.get());
  must(outgoing);
}

bool Conformance::two_hosts() const {
  return near.attributes().address != far.attributes().address;
}

void Conformance::kill_peer(const HostPtr& host) {
  add_recorded(host->call<op::die>());
  killed_.push_back(host);
}

void Conformance::post_and_leave(const Vi& vi, const Descriptor& descriptor, std::uint32_t count) {
  add_recorded(vi.host->call<op::post_and_leave>(vi.handle, descriptor, count));
  killed_.push_back(vi.host);
}

void EachLevel::SetUp() {
  Conformance::SetUp();
  NEEDS(near.supports(level()) && far.supports(level()), "the NIC does not have this level");
}

std::string level_name(VIP_RELIABILITY_LEVEL level) {
  switch (level) {
    case VIP_SERVICE_UNRELIABLE:
      return "UnreliableDelivery";
    case VIP_SERVICE_RELIABLE_DELIVERY:
      return "ReliableDelivery";
    case VIP_SERVICE_RELIABLE_RECEPTION:
      return "ReliableReception";
    default:
      return "Level" + std::to_string(level);
  }
}

void covers_checklist(int number) { checklist_of_test.insert(number); }

Cut::Cut() { run_hook(options.cut); }
void Cut::mend() {
  if (std::exchange(cut_, false)) undo_hook(options.mend);
}
NoProvider::NoProvider() { run_hook(options.kill_provider); }
void NoProvider::start() {
  if (std::exchange(gone_, false)) undo_hook(options.start_provider);
}

}  // namespace conformance
