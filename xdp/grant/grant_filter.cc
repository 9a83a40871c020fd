#include "xdp/grant/grant_filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "xdp/xsk/chunk.h"
#include "xdp/grant/filter_hook.h"
#include "xdp/grant/grant_entry.h"
#include "xdp/grant/macvlan.h"
#include "xdp/port_error.h"
#include "xdp/table_use.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/bpf/grant_filter.skel.h"
#pragma GCC diagnostic pop
#include "xdp/bpf/steering.h"

namespace viaduct {
namespace {

std::string explain(const Interface& lower, const std::string& what, int error) {
  std::string text = lower.name + ": can't " + what + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES) text += " (CAP_NET_ADMIN and CAP_BPF needed)";
  return text;
}

GrantFilter::Counts sum(const grant_counts* each, int cpus) {
  GrantFilter::Counts out;
  for (int i = 0; i < cpus; ++i) {
    out.passed += each[i].frames[GRANT_PASSED];
    out.forged_source += each[i].frames[GRANT_FORGED_SOURCE];
    out.wrong_type += each[i].frames[GRANT_WRONG_TYPE];
    out.too_long += each[i].frames[GRANT_TOO_LONG];
    out.forbidden += each[i].frames[GRANT_FORBIDDEN];
  }
  return out;
}

void add_up(GrantFilter::Counts& to, const GrantFilter::Counts& more) {
  to.passed += more.passed;
  to.forged_source += more.forged_source;
  to.wrong_type += more.wrong_type;
  to.too_long += more.too_long;
  to.forbidden += more.forbidden;
}

}  // namespace

GrantFilter::GrantFilter(const Interface& lower, std::uint16_t ether_type,
                         const GrantRemains* remains)
    : lower_(lower), ether_type_(ether_type), used_(VIADUCT_GRANTS) {
  silence_xdp_libraries();
  program_ = grant_filter_bpf__open();
  if (program_ == nullptr) throw PortError(explain(lower_, "open the egress filter", errno));
  program_->rodata->ether_type = ether_type;
  program_->rodata->most_bytes = lower.mtu + kEthernet;
  program_->rodata->host_at = kConnectHostAt;
  std::memcpy(const_cast<std::uint16_t*>(program_->rodata->host), lower.address.data(),
              lower.address.size());
  try {
    if (remains != nullptr &&
        (bpf_map__reuse_fd(program_->maps.grants, remains->grants.get()) != 0 ||
         bpf_map__reuse_fd(program_->maps.counts, remains->counts.get()) != 0)) {
      throw PortError(explain(lower_, "go on with the egress filter's tables", errno));
    }
    if (const int error = -grant_filter_bpf__load(program_)) {
      throw PortError(explain(lower_, "load the egress filter", error));
    }
    attach(remains);
  } catch (...) {
    grant_filter_bpf__destroy(program_);
    throw;
  }
  if (remains == nullptr) return;
  relay_child_ = remains->relay_child;
  for (const GrantRemains::Port& port : remains->ports) {
    used_[port.entry.number] = true;
    next_ = std::max(next_, port.entry.number + 1);
  }
  if (relay_child_) next_ = std::max(next_, relay_child_->number + 1);
}

GrantFilter::~GrantFilter() {
  if (worker_.joinable()) worker_.join();
  if (!kept_) detach();
  grant_filter_bpf__destroy(program_);
}

void GrantFilter::later(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  if (!working_) {
    if (worker_.joinable()) worker_.join();
    // Signals are left to the other threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      worker_ = std::thread([this, use = TableUse()] { this->work(); });
      working_ = true;
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!working_) {
      lock.unlock();
      work();
      return;
    }
  }
  work_.push_back(std::move(work));
}

void GrantFilter::work() {
  std::unique_lock lock(mutex_);
  while (!work_.empty()) {
    const auto next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
  working_ = false;
}

void GrantFilter::attach(const GrantRemains* remains) {
  const int program = bpf_program__fd(program_->progs.viaduct_filter);
  const int refused = attach_tcx(program, remains);
  if (refused == 0) return;
  if (refused != EINVAL) why_classic_ = explain(lower_, "attach the egress filter by TCX", refused);
  classic_ = true;
  int error = make_classic_hook(lower_.index);
  if (error == 0) {
    const bpf_tc_hook hook = classic_hook(lower_.index);
    DECLARE_LIBBPF_OPTS(bpf_tc_opts, of, .prog_fd = program, .flags = BPF_TC_F_REPLACE,
                        .handle = kClassicHandle, .priority = kClassicPriority);
    error = -bpf_tc_attach(&hook, &of);
  }
  if (error != 0) throw PortError(explain(lower_, "attach the egress filter", error));
}

// Attaches the filter by TCX. Returns 0, or an error: EINVAL where the kernel has no TCX. At no time is there no
// filter.
int GrantFilter::attach_tcx(int program, const GrantRemains* remains) {
  const int before = remains != nullptr && !remains->classic ? remains->filter.get() : -1;
  DECLARE_LIBBPF_OPTS(bpf_prog_attach_opts, instead, .flags = BPF_F_REPLACE, .replace_prog_fd = before);
  if (before < 0 || bpf_prog_attach_opts(program, lower_.index, kTcxEgress, &instead) != 0) {
    if (const int error = -bpf_prog_attach(program, lower_.index, kTcxEgress, 0)) return error;
    if (before >= 0) bpf_prog_detach2(before, lower_.index, kTcxEgress);
  }
  // An earlier agent's filter may be there too, as a clsact filter: frames would have to pass both.
  if (remains != nullptr) detach_classic(lower_.index);
  return 0;
}

void GrantFilter::detach() {
  if (classic_) {
    detach_classic(lower_.index);
  } else {
    bpf_prog_detach2(bpf_program__fd(program_->progs.viaduct_filter), lower_.index, kTcxEgress);
  }
}

GrantFilter::Entry GrantFilter::add() {
  const std::lock_guard lock(entries_mutex_);
  return add_locked();
}

GrantFilter::Entry GrantFilter::add_locked() {
  const auto count = static_cast<std::uint32_t>(used_.size());
  std::uint32_t n = 0;
  while (n < count && used_[(next_ + n) % count]) ++n;
  if (n == count) {
    throw PortError(lower_.name + ": there are " + std::to_string(count) +
                    " granted ports already");
  }
  Entry entry{(next_ + n) % count, 0, {}};
  next_ = entry.number + 1;
  entry.mark = VIADUCT_GRANT_MARK + entry.number;
  MacAddress& a = entry.address;
  a = random_address(lower_);
  const std::uint32_t low = (a[4] << 8u | a[5]) & ~(VIADUCT_GRANTS - 1);
  a[4] = static_cast<std::uint8_t>((low | entry.number) >> 8);
  a[5] = static_cast<std::uint8_t>(entry.number);
  used_[entry.number] = true;
  return entry;
}

GrantFilter::Entry GrantFilter::add_relay_child() {
  const std::lock_guard lock(entries_mutex_);
  if (!relay_child_ || used_[relay_child_->number]) return add_locked();
  const Entry entry = *std::exchange(relay_child_, std::nullopt);
  used_[entry.number] = true;
  return entry;
}

void GrantFilter::enter(const Entry& entry, int ifindex, bool agents_own, const Holder* holder) {
  grant_entry value{};
  std::memcpy(value.address, entry.address.data(), entry.address.size());
  value.holder = agents_own ? GRANT_AGENT : GRANT_PROGRAM;
  value.ifindex = static_cast<std::uint32_t>(ifindex);
  value.ether_type = ether_type_;
  if (agents_own || holder != nullptr) value.version = VIADUCT_GRANT_VERSION;
  if (holder != nullptr) {
    value.user = holder->user;
    value.device = holder->device;
    value.granted_segment = holder->granted_segment;
    value.umem = holder->umem;
  }
  if (bpf_map_update_elem(bpf_map__fd(program_->maps.grants), &entry.number, &value, 0) != 0) {
    throw PortError(explain(lower_, "enter a port in the egress filter", errno));
  }
}

void GrantFilter::remove(const Entry& entry) {
  clear(entry);
  const std::lock_guard lock(entries_mutex_);
  used_[entry.number] = false;
}

void GrantFilter::clear(const Entry& entry) {
  const grant_entry nothing{};
  bpf_map_update_elem(bpf_map__fd(program_->maps.grants), &entry.number, &nothing, 0);
  const std::lock_guard lock(entries_mutex_);
  add_up(gone_, counts_locked(entry));
  const std::vector<grant_counts> zero(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  bpf_map_update_elem(bpf_map__fd(program_->maps.counts), &entry.number, zero.data(), 0);
}

GrantFilter::Counts GrantFilter::counts(const Entry& entry) const {
  const std::lock_guard lock(entries_mutex_);
  return counts_locked(entry);
}

GrantFilter::Counts GrantFilter::counts_locked(const Entry& entry) const {
  std::vector<grant_counts> each(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  bpf_map_lookup_elem(bpf_map__fd(program_->maps.counts), &entry.number, each.data());
  return sum(each.data(), static_cast<int>(each.size()));
}

GrantFilter::Counts GrantFilter::counts() const {
  const std::lock_guard lock(entries_mutex_);
  Counts out = gone_;
  for (std::uint32_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) add_up(out, counts_locked(Entry{i, 0, {}}));
  }
  return out;
}

}  // namespace viaduct
