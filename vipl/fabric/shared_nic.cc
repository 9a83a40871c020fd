#include "vipl/fabric/shared_nic.h"

#include <algorithm>
#include <chrono>

namespace viaduct::fabric {
namespace {

constexpr std::uint32_t kTransferBytes = 1u << 20;
constexpr unsigned kEntriesAtOnce = 64;
constexpr auto kShortNap = std::chrono::microseconds(50);
constexpr auto kLongNap = std::chrono::microseconds(2000);
constexpr long kStarvingNapNs = 500'000;
constexpr auto kOpenPatience = std::chrono::seconds(60);
constexpr auto kUnanswered = std::chrono::seconds(4);  // VipOpenNic waits for an answer for five

// Error handlers may still be called when their NIC is closed, so they get a number. Never destroyed:
// threads outlive the end of main().
struct Registry {
  std::mutex mutex;
  std::weak_ptr<SharedNic> current;
  std::uintptr_t last = 0;
};

Registry& registry() {
  static Registry& registry = *new Registry;
  return registry;
}

// An agent that many ranks ask at once on a busy host may take longer to make their ports than VipOpenNic waits: then
// asks again. A failure without a wait (no agent, or one that refuses) is reported at once.
VIP_RETURN open_patiently(VIP_NIC_HANDLE& handle) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + kOpenPatience;
  for (;;) {
    const auto begin = Clock::now();
    const VIP_RETURN code = VipOpenNic(device_name(), &handle);
    if (code != VIP_ERROR_RESOURCE || Clock::now() - begin < kUnanswered || Clock::now() > until) return code;
    FI_INFO(&provider, FI_LOG_FABRIC, "%s: the agent does not answer; asking again\n", device_name());
  }
}

}  // namespace

int SharedNic::open(std::shared_ptr<SharedNic>& nic) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  nic = all.current.lock();
  if (nic) return 0;
  VIP_NIC_HANDLE handle;
  if (const VIP_RETURN code = open_patiently(handle); code != VIP_SUCCESS) {
    FI_INFO(&provider, FI_LOG_FABRIC, "%s: %s\n", device_name(), VipxReturnText(code));
    return -FI_ENODATA;
  }
  nic = std::make_shared<SharedNic>(handle, ++all.last);
  if (!nic->prepare()) {
    nic.reset();
    return -FI_ENOMEM;
  }
  all.current = nic;
  return 0;
}

SharedNic::SharedNic(VIP_NIC_HANDLE handle, std::uintptr_t number) : handle_(handle), number_(number) {}

bool SharedNic::prepare() {
  if (VipQueryNic(handle_, &attributes_) != VIP_SUCCESS) return false;
  transfer_bytes_ = static_cast<std::uint32_t>(
      std::min<VIP_ULONG>(attributes_.MaxTransferSize, kTransferBytes));
  // A completion queue of any size loses no entry.
  const VIP_ULONG entries = std::min<VIP_ULONG>(attributes_.MaxCQEntries, 8192);
  if (VipCreateCQ(handle_, entries, &queue_) != VIP_SUCCESS) return false;
  return VipErrorCallback(handle_, reinterpret_cast<void*>(number_), &SharedNic::on_error) ==
         VIP_SUCCESS;
}

SharedNic::~SharedNic() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    watcher_news_.notify_all();
    wake_watcher_.raise();
  }
  if (watcher_.joinable()) watcher_.join();
  VipCloseNic(handle_);
}

void SharedNic::on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
  std::shared_ptr<SharedNic> nic;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    nic = all.current.lock();
  }
  if (!nic || nic->number_ != reinterpret_cast<std::uintptr_t>(context)) return;
  const std::lock_guard lock(nic->mutex_);
  FI_INFO(&provider, FI_LOG_EP_CTRL, "%s\n", VipxErrorText(error->ErrorCode));
  if (error->ErrorCode == VIP_ERROR_CATASTROPHIC) {
    nic->lose_all();
  } else if (error->ErrorCode == VIP_ERROR_CONN_LOST) {
    auto* link = static_cast<NicLink*>(VipGetUserData(error->ViHandle));
    if (nic->has(link)) link->on_lost();
  }
}

void SharedNic::lose_all() {
  lost_ = true;
  const std::set<NicLink*> links = links_;
  for (NicLink* link : links) {
    if (has(link)) link->on_lost();
  }
}

// ------------------------------------------------------------------------------------ progress

void SharedNic::progress() {
  take_completions();
  // Goes through the list from its end: a link that goes on leaves the list, or stands at its end again.
  for (std::size_t i = starving_.size(); i-- != 0;) {
    if (i < starving_.size()) starving_[i]->feed();
  }
}

void SharedNic::take_completions() {
  for (unsigned i = 0; i < kEntriesAtOnce; ++i) {
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN receive;
    const VIP_RETURN code = VipCQDone(queue_, &vi, &receive);
    if (code == VIP_NOT_DONE) return;
    if (code != VIP_SUCCESS) {
      if (!lost_) lose_all();
      return;
    }
    dispatch(vi, receive == VIP_TRUE);
  }
}

void SharedNic::dispatch(VIP_VI_HANDLE vi, bool receive) {
  auto* link = static_cast<NicLink*>(VipGetUserData(vi));
  if (link == nullptr) return;  // its VI is being destroyed
  if (receive) {
    link->on_receive_done();
  } else {
    link->on_send_done();
  }
}

// ------------------------------------------------------------------------------------ watcher

void SharedNic::start_watcher() {
  if (!watcher_.joinable()) {
    wake_watcher_.open();
    watcher_ = std::thread([this] { watcher(); });
  }
  watcher_news_.notify_one();
  // A watcher that sleeps in VipxPoll hears of completions; of anything else it must be told.
  const bool polls = watcher_state_ == kPolling || watcher_state_ == kPollingBriefly;
  if (!polls || starving()) wake_watcher_.raise();
}

void SharedNic::add_starving(NicLink& link) {
  starving_.push_back(&link);
  if (watcher_state_ == kPolling) wake_watcher_.raise();
}

// Most programs look at a queue anyway. So the watcher, which sleeps only for a while, is not woken each time.
void SharedNic::add_backlogged() {
  ++backlogged_;
  if (watcher_.joinable() && watcher_state_ != kIdle) return;
  nap_ = kLongNap;
  start_watcher();
}

void SharedNic::add_pending() {
  ++pending_;
  nap_ = kShortNap;
  start_watcher();
}

void SharedNic::watch(NicQueue& queue) {
  if (watched_.insert(&queue).second) start_watcher();
}

void SharedNic::progress_always() {
  polls_always_ = true;
  start_watcher();
}

void SharedNic::watcher() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_watcher_.lower();
    progress();
    std::erase_if(watched_, [](NicQueue* queue) { return queue->tell_watched(); });
    if (lost_ || (watched_.empty() && !polls_always_)) {
      if ((pending_ == 0 && backlogged_ == 0) || lost_) {
        watcher_state_ = kIdle;
        watcher_news_.wait(lock);
        watcher_state_ = kAwake;
      } else {
        watcher_news_.wait_for(lock, nap_);
        nap_ = std::min(nap_ * 5 / 4, kLongNap);
      }
      continue;
    }
    pollfd wake{wake_watcher_.descriptor(), POLLIN, 0};
    const timespec nap{0, kStarvingNapNs};
    const bool brief = starving();
    watcher_state_ = brief ? kPollingBriefly : kPolling;
    lock.unlock();
    VipxPoll(queue_, &wake, 1, brief ? &nap : nullptr, nullptr);
    lock.lock();
    watcher_state_ = kAwake;
  }
}

}  // namespace viaduct::fabric
