#include "xdp/grant_filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "xdp/chunk.h"
#include "xdp/grant_entry.h"
#include "xdp/macvlan.h"
#include "xdp/open_port.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/grant_filter.skel.h"
#pragma GCC diagnostic pop
#include "xdp/steering.h"

namespace viaduct {
namespace {

constexpr char kFilterName[] = "viaduct_filter";

// TCX is newer (Linux 6.6) than the headers may be. A program that is attached by itself and not by
// a link stays until it is detached.
constexpr auto kTcxEgress = static_cast<bpf_attach_type>(47);

// The same for kernels without TCX.
constexpr std::uint32_t kClassicHandle = 0x5649, kClassicPriority = 0x5649;
bpf_tc_hook classic_hook(int ifindex) {
  DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_EGRESS);
  return hook;
}

void detach_classic(int ifindex) {
  bpf_tc_hook hook = classic_hook(ifindex);
  DECLARE_LIBBPF_OPTS(bpf_tc_opts, which, .handle = kClassicHandle, .priority = kClassicPriority);
  bpf_tc_detach(&hook, &which);
}

std::string name_of(int program) {
  bpf_prog_info info{};
  std::uint32_t bytes = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &bytes) != 0) return {};
  return info.name;
}

// libbpf does not know TCX yet, so the kernel is asked for the interface's programs directly.
void detach_all_tcx(int ifindex) {
  std::uint32_t ids[64];
  // As the kernel has it now; the `revision` behind is written too.
  struct {
    std::uint32_t ifindex, attach_type, query_flags, attach_flags;
    std::uint64_t ids;
    std::uint32_t count, pad;
    std::uint64_t rest[4];
  } query{};
  static_assert(sizeof query == 64);
  query.ifindex = static_cast<std::uint32_t>(ifindex);
  query.attach_type = kTcxEgress;
  query.ids = reinterpret_cast<std::uintptr_t>(ids);
  query.count = std::size(ids);
  if (syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof query) != 0) return;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(query.count, std::size(ids)); ++i) {
    const int program = bpf_prog_get_fd_by_id(ids[i]);
    if (program < 0) continue;
    if (name_of(program) == kFilterName) bpf_prog_detach2(program, ifindex, kTcxEgress);
    close(program);
  }
}

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

std::string child_name(const Interface& lower, std::uint32_t number) {
  return "vdg" + std::to_string(lower.index) + "." + std::to_string(number);
}

unsigned remove_remains(const Interface& lower) {
  silence_xdp_libraries();
  const unsigned children =
      delete_children(lower.index, "vdg" + std::to_string(lower.index) + ".", kChildAlias);
  detach_all_tcx(lower.index);
  detach_classic(lower.index);
  return children;
}

GrantFilter::GrantFilter(const Interface& lower, std::uint16_t ether_type)
    : lower_(lower), used_(VIADUCT_GRANTS) {
  silence_xdp_libraries();
  program_ = grant_filter_bpf__open();
  if (program_ == nullptr) throw PortError(explain(lower_, "open the egress filter", errno));
  program_->rodata->ether_type = ether_type;
  program_->rodata->most_bytes = lower.mtu + kEthernet;
  program_->rodata->host_at = kConnectHostAt;
  std::memcpy(const_cast<std::uint16_t*>(program_->rodata->host), lower.address.data(),
              lower.address.size());
  try {
    if (const int error = -grant_filter_bpf__load(program_)) {
      throw PortError(explain(lower_, "load the egress filter", error));
    }
    attach();
  } catch (...) {
    grant_filter_bpf__destroy(program_);
    throw;
  }
}

GrantFilter::~GrantFilter() {
  if (worker_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    worker_.join();
  }
  detach();
  grant_filter_bpf__destroy(program_);
}

void GrantFilter::later(std::function<void()> work) {
  if (!worker_.joinable()) {
    // Signals are for the other threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      worker_ = std::thread([this] { this->work(); });
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!worker_.joinable()) {
      work();
      return;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void GrantFilter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
    if (work_.empty()) return;
    const auto next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

void GrantFilter::attach() {
  const int program = bpf_program__fd(program_->progs.viaduct_filter);
  if (bpf_prog_attach(program, lower_.index, kTcxEgress, 0) == 0) return;
  classic_ = true;
  bpf_tc_hook hook = classic_hook(lower_.index);
  const int made = bpf_tc_hook_create(&hook);
  DECLARE_LIBBPF_OPTS(bpf_tc_opts, of, .prog_fd = program, .flags = BPF_TC_F_REPLACE,
                      .handle = kClassicHandle, .priority = kClassicPriority);
  const int error = made != 0 && made != -EEXIST ? -made : -bpf_tc_attach(&hook, &of);
  if (error != 0) throw PortError(explain(lower_, "attach the egress filter", error));
}

void GrantFilter::detach() {
  if (classic_) {
    detach_classic(lower_.index);
  } else {
    bpf_prog_detach2(bpf_program__fd(program_->progs.viaduct_filter), lower_.index, kTcxEgress);
  }
}

GrantFilter::Entry GrantFilter::add() {
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
  if (getrandom(a.data(), a.size(), 0) != static_cast<ssize_t>(a.size())) {
    throw PortError(explain(lower_, "draw an address", errno));
  }
  a[0] = static_cast<std::uint8_t>((a[0] & 0xfc) | 0x02);  // unicast, locally administered
  const std::uint32_t low = (a[4] << 8u | a[5]) & ~(VIADUCT_GRANTS - 1);
  a[4] = static_cast<std::uint8_t>((low | entry.number) >> 8);
  a[5] = static_cast<std::uint8_t>(entry.number);
  used_[entry.number] = true;
  return entry;
}

void GrantFilter::enter(const Entry& entry, int ifindex, bool agents_own) {
  grant_entry value{};
  std::memcpy(value.address, entry.address.data(), entry.address.size());
  value.holder = agents_own ? GRANT_AGENT : GRANT_PROGRAM;
  value.ifindex = static_cast<std::uint32_t>(ifindex);
  if (bpf_map_update_elem(bpf_map__fd(program_->maps.grants), &entry.number, &value, 0) != 0) {
    throw PortError(explain(lower_, "enter a port in the egress filter", errno));
  }
}

void GrantFilter::remove(const Entry& entry) {
  const grant_entry nothing{};
  bpf_map_update_elem(bpf_map__fd(program_->maps.grants), &entry.number, &nothing, 0);
  add_up(gone_, counts(entry));
  const std::vector<grant_counts> zero(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  bpf_map_update_elem(bpf_map__fd(program_->maps.counts), &entry.number, zero.data(), 0);
  used_[entry.number] = false;
}

GrantFilter::Counts GrantFilter::counts(const Entry& entry) const {
  std::vector<grant_counts> each(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  bpf_map_lookup_elem(bpf_map__fd(program_->maps.counts), &entry.number, each.data());
  return sum(each.data(), static_cast<int>(each.size()));
}

GrantFilter::Counts GrantFilter::counts() const {
  Counts out = gone_;
  for (std::uint32_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) add_up(out, counts(Entry{i, 0, {}}));
  }
  return out;
}

}  // namespace viaduct
