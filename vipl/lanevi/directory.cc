#include "vipl/lanevi/directory.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

#include "vipl/lanevi/failure.h"

namespace viaduct::lanevi {
namespace {

// The link is asked often at first, so that hosts that begin together find each other soon. Later hosts, and those
// that were away, are found too.
constexpr int kBriskRounds = 10;
constexpr std::chrono::seconds kBrisk{1};
constexpr std::chrono::seconds kSteady{5};

std::optional<MacAddress> parse_mac(const std::string& text) {
  unsigned a[6];
  int end = 0;
  if (std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &a[0], &a[1], &a[2], &a[3], &a[4],
                  &a[5], &end) != 6 ||
      static_cast<std::size_t>(end) != text.size()) {
    return std::nullopt;
  }
  MacAddress out;
  std::transform(a, a + 6, out.begin(), [](unsigned v) { return static_cast<std::uint8_t>(v); });
  return out;
}

}  // namespace

Directory::Directory(const LinkNic& nic, const Options& options)
    : nic_(nic.handle()),
      own_(nic.address()),
      options_(options),
      news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (news_ < 0) fail("eventfd");
  thread_ = std::thread([this] { run(); });
}

// If the NIC is closed before, the destructor does not wait for an answer from the link.
Directory::~Directory() {
  {
    const LockGuard lock(mutex_);
    stopping_ = true;
  }
  ending_.notify_one();
  thread_.join();
  close(news_);
}

std::vector<FoundHost> Directory::take() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = read(news_, &count, sizeof count);
  const LockGuard lock(mutex_);
  return std::move(found_);
}

void Directory::run() {
  for (int round = 0;; ++round) {
    options_.peers.empty() ? look_for_all() : look_for_told();
    const LockGuard lock(mutex_);
    const auto pause = round < kBriskRounds ? kBrisk : kSteady;
    if (ending_.wait_for(mutex_, pause, [this]() VIADUCT_REQUIRES(mutex_) { return stopping_; })) return;
  }
}

void Directory::look_for_told() {
  for (const ToldPeer& peer : options_.peers) {
    {
      const LockGuard lock(mutex_);
      if (stopping_) return;
    }
    if (const auto address = parse_mac(peer.host)) {
      found(peer.host, *address);
      continue;
    }
    NetAddress address;
    std::string name = peer.host;
    if (VipNSGetHostByName(nic_, name.data(), address.get(), 0) == VIP_SUCCESS) {
      found(peer.host, address.host());
    }
  }
}

void Directory::look_for_all() {
  VIP_AUTODISCOVERY_LIST list{};
  if (VipQuerySystemManagementInfo(nic_, VIP_SMI_AUTODISCOVERY, &list) != VIP_SUCCESS) return;
  for (VIP_ULONG i = 0; i < list.NumAdAddrs; ++i) {
    MacAddress host;
    std::memcpy(host.data(), list.ADAddrArray[i]->HostAddress, host.size());
    found(name_of(list.ADAddrArray[i], host), host);
  }
}

std::string Directory::name_of(VIP_NET_ADDRESS* address, const MacAddress& host) const {
  char name[256];
  VIP_ULONG room = sizeof name;
  return VipNSGetHostByAddr(nic_, address, name, &room) == VIP_SUCCESS ? name : text_of(host);
}

void Directory::found(const std::string& name, const MacAddress& address) {
  if (address == own_) return;
  const auto [known, is_new] = known_.try_emplace(name, address);
  if (!is_new && known->second == address) return;
  known->second = address;
  {
    const LockGuard lock(mutex_);
    found_.push_back({name, address});
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(news_, &one, sizeof one);
}

}  // namespace viaduct::lanevi
