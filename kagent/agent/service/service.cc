#include "kagent/agent/service/service.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "xdp/clock.h"
#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/config/device_names.h"
#include "kagent/agent/process/log.h"
#include "kagent/agent/reports/counter_table.h"
#include "kagent/agent/grants/macvlan_ports.h"
#include "xdp/host_port.h"
#include "xdp/port_error.h"
#include "xdp/table_use.h"

namespace viaduct {
namespace {

constexpr std::uint64_t kLookEveryNs = kNsPerMs;
constexpr std::uint64_t kPortLookEveryNs = 250 * kNsPerMs;
constexpr std::uint64_t kRetryEveryNs = kNsPerSecond;
constexpr std::uint64_t kNamesEveryNs = 10 * kNsPerSecond;
constexpr std::uint64_t kGoodbyeNs = 200 * kNsPerMs;
constexpr std::uint64_t kBlindSleepNs = kNsPerMs;  // with a port that can't wake us

std::unique_ptr<Port> open_real_port(const NicConfig& config) {
  PortOptions options;
  options.interface = config.interface;
  options.kind = config.port;
  options.ether_type = config.ether_type;
  options.frames = config.frames;
  options.ring = config.ring;
  options.note = [](std::string_view text) { log::info("{}", text); };
  return open_port(options);
}

// A NIC on which only programs of this host meet. Its locally administered address never appears on
// a wire.
constexpr MacAddress kLoopbackAddress{0x02, 'v', 'i', 'a', 'l', 'o'};
constexpr std::uint32_t kLoopbackMtu = 8192;

const NicConfig& loopback_config() {
  static const NicConfig config = [] {
    NicConfig out;
    out.interface = kLoopbackDevice;
    return out;
  }();
  return config;
}

std::unique_ptr<Port> open_loopback() {
  return HostPort::no_uplink(kLoopbackAddress, kLoopbackMtu);
}

std::string describe(const NicReport& nic) {
  if (!nic.live) return nic.interface + " (not there yet)";
  return nic.interface + " (" + to_text(nic.live->address) + ", MTU " +
         std::to_string(nic.live->mtu) + ", " + nic.live->mode + ")";
}

}  // namespace

Service::Service(const Config& config)
    : Service(config, open_real_port, [](const NicConfig& nic, HostPort& port) {
        return std::make_unique<MacvlanPorts>(nic, port);
      }) {}

Service::Service(const Config& config, OpenPort open_port, MakeGranter make_granter)
    : config_(config), few_processors_(idle::are_processors_few()) {
  for (const NicConfig& nic : config.nics) {
    nics_.push_back(std::make_unique<AgentNic>(
        nic, config, [open_port, &nic] { return open_port(nic); },
        [interface = nic.interface] { return interface_addresses(interface); },
        make_granter == nullptr
            ? AgentNic::MakeGranter()
            : [make_granter, &nic](HostPort& port) { return make_granter(nic, port); }));
  }
  nics_.push_back(std::make_unique<AgentNic>(loopback_config(), config, open_loopback, [] {
    return std::vector<std::string>{"127.0.0.1", "::1"};
  }));
  served_.resize(nics_.size());
}

Service::~Service() {
  server_.reset();
  for (const Served& served : served_) loop_.remove(served.token);
}

void Service::start() {
  // The socket first: an agent that is there already is found before anything is touched.
  server_ = std::make_unique<SessionServer>(config_, loop_, nics_, counters_, local_paths_,
                                            [this] { return counters_text(); });
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    try {
      nics_[i]->open(monotonic_ns());
    } catch (const InterfaceDown& error) {
      log::warn("{}; the agent waits for it, trying every second", error.what());
      served_[i].last_error = error.what();
      nics_[i]->set_why_closed(error.what());
      continue;
    }
    watch_port(i);
    note_hosted(*nics_[i]);
    server_->inherit(*nics_[i]);
  }
}

// Logs why all programs of a NIC will be hosted, if the configuration would let them have ports.
void Service::note_hosted(const AgentNic& nic) const {
  if (config_.placement == control::Placement::kHosted || nic.granter() != nullptr) return;
  if (&nic != nics_.back().get()) {
    log::info("{}: programs are hosted: {}", nic.interface(), nic.why_not_granted());
  }
}

std::string Service::description() const {
  std::string out;
  for (const auto& nic : nics_) out += (out.empty() ? "" : ", ") + describe(nic->report());
  return out + "; host " + config_.name + ", socket " + config_.socket_to_listen_at();
}

std::string Service::counters_text() {
  local_paths_.count_bytes();
  std::vector<NicReport> reports;
  for (const auto& nic : nics_) {
    reports.push_back(nic->report());
    if (reports.back().live) reports.back().live->granted_ready = server_->grants().ready(*nic);
  }
  return counter_table(reports, counters_);
}

// ---------------------------------------------------------------------------- the loop

void Service::run(const std::function<void()>& at_end) {
  for (const auto& nic : nics_) nic->environment().memories().set_threads(&hang_guard_, &server_->threads());
  hang_guard_.run([&] {
    serve();
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      loop_.remove(std::exchange(served_[i].token, 0));
      nics_[i]->close();
    }
    if (at_end) at_end();
  });
}

void Service::serve() {
  std::uint64_t last = 0;  // when the last round began or ended its sleep; 0: it found nothing
  while (!stopping_) {
    const std::uint64_t now = monotonic_ns();
    if (last != 0) note_round(now - last);
    last = 0;
    ++counters_.rounds;
    unsigned work = progress(now);
    // Requests of programs may leave the stacks something to do.
    if (now >= next_look_) work += look_around(now);
    if (work != 0) {
      ++counters_.busy_rounds;
      note_work(now);
      last = now;
    } else if (now < busy_until_ && !crowd_.is_here(now)) {
      give_way(now);
    } else {
      last = sleep(now);
    }
  }
  say_goodbye();
}

// How long the agent spins next depends on how long it had to wait for this work.
void Service::note_work(std::uint64_t now) {
  const std::uint64_t most = config_.spin_us * kNsPerUs;
  if (slept_) spin_time_.slept(now - busy_since_, most, idle::SpinTime::kProgramsAndAgents);
  slept_ = false;
  busy_since_ = now;
  busy_until_ = now + spin_time_.ns(most);
  idle_rounds_ = 0;
}

void Service::note_round(std::uint64_t ns) {
  counters_.longest_round_ns = std::max(counters_.longest_round_ns, ns);
}

unsigned Service::progress(std::uint64_t now) {
  unsigned work = 0;
  for (const auto& nic : nics_) {
    if (!nic->is_open()) continue;
    work += nic->stack().progress(now);
    if (nic->environment().has_introductions()) [[unlikely]] local_paths_.connect(*nic);
  }
  return work;
}

// Yields: programs may need this processor to give the agent work.
void Service::give_way(std::uint64_t now) {
  ++idle_rounds_;
  if (!idle::gives_way(few_processors_, idle_rounds_, idle::kLooksOfAgent)) return idle::relax();
  sched_yield();
  crowd_.note(now, monotonic_ns());
}

// Work that is not worth a system call in every round.
unsigned Service::look_around(std::uint64_t now) {
  next_look_ = now + kLookEveryNs;
  const unsigned events = poll(0);
  look_after_others(now);
  return events;
}

void Service::look_after_others(std::uint64_t now) {
  if (hang_guard_.shares_table() && !TableUse::any()) [[unlikely]] hang_guard_.empty_table();
  if (!server_->tick(now) && !stopping_) {
    log::info("the last connection is over, the agent ends as it was asked to");
    stop();
  }
  const bool suspect = std::any_of(served_.begin(), served_.end(),
                                   [](const Served& served) { return served.suspect; });
  if (suspect || now >= next_port_look_) look_after_ports(now);
}

// Returns the time at which the sleep was over.
std::uint64_t Service::sleep(std::uint64_t now) {
  std::uint64_t until = std::min(server_->next_deadline(), next_port_look_);
  std::uint64_t over = now;
  bool may_sleep = true;
  std::size_t asked = 0;
  for (; asked < nics_.size() && may_sleep; ++asked) {
    AgentNic& nic = *nics_[asked];
    if (!nic.is_open()) continue;
    Served& served = served_[asked];
    if (served.token != 0) {
      const int fd = nic.port().descriptor();
      if (fd != served.watched || ports_seen_) loop_.renew(served.token, fd);
      served.watched = fd;
    } else {
      until = std::min(until, now + kBlindSleepNs);
    }
    may_sleep = nic.stack().prepare_to_sleep();
    until = std::min(until, nic.stack().next_deadline());
  }
  ports_seen_ = ports_seen_ && !may_sleep;
  if (may_sleep && until > now) {
    ++counters_.sleeps;
    note_round(monotonic_ns() - now);
    poll(until - now);
    over = loop_.woken();
    slept_ = true;
  }
  for (const auto& nic : nics_) {
    if (nic->is_open()) nic->stack().awake();
  }
  // The program or peer that woke the agent is likely to want more.
  const std::uint64_t woken = monotonic_ns();
  busy_until_ = woken + spin_time_.ns(config_.spin_us * kNsPerUs);
  idle_rounds_ = 0;
  if (woken < next_look_ && woken < until) return over;
  next_look_ = woken + kLookEveryNs;
  look_after_others(woken);
  return over;
}

unsigned Service::poll(std::uint64_t timeout_ns) {
  try {
    return loop_.poll(timeout_ns);
  } catch (const std::exception& error) {
    log::error("cannot serve a request, it is dropped: {}", error.what());
    return 1;
  }
}

// ---------------------------------------------------------------------------- ports

void Service::watch_port(std::size_t number) {
  const int fd = nics_[number]->port().descriptor();
  if (fd < 0) return;
  served_[number].token = loop_.add(fd, EPOLLIN, [this, number](std::uint32_t events) {
    if ((events & (EPOLLERR | EPOLLHUP)) == 0) return;
    // Reading a socket's error clears it; else it would wake us for ever.
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(nics_[number]->port().descriptor(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    served_[number].suspect = true;
  });
}

void Service::look_after_ports(std::uint64_t now) {
  next_port_look_ = now + kPortLookEveryNs;
  ports_seen_ = true;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    served_[i].suspect = false;
    if (!nics_[i]->is_open()) {
      if (now >= served_[i].retry_at) retry_port(i, now);
      continue;
    }
    // A port that is asked for its counters looks after itself too.
    nics_[i]->port().counters();
    report_names(i, now);
    if (!nics_[i]->port().alive()) lose_port(i, now);
  }
}

// Any host on the link can cause these warnings, so their rate is limited.
void Service::report_names(std::size_t number, std::uint64_t now) {
  const Stack& stack = nics_[number]->stack();
  Served& served = served_[number];
  const std::uint64_t count = stack.counters().name_conflicts;
  if (count == served.name_conflicts || now < served.names_at) return;
  served.name_conflicts = count;
  served.names_at = now + kNamesEveryNs;
  const NameConflict& last = stack.name_conflict();
  log::warn("{}: two hosts answer to the name {}: {} and {}; programs may reach either until one is "
            "renamed (name in viad.conf)", nics_[number]->interface(),
            shown(last.name), to_text(last.first), to_text(last.second));
}

void Service::lose_port(std::size_t number, std::uint64_t now) {
  AgentNic& nic = *nics_[number];
  Served& served = served_[number];
  ++counters_.port_losses;
  log::error("interface {} disappeared or changed its address; its sessions are closed, retrying every "
             "second", nic.interface());
  server_->end_sessions(nic);
  loop_.remove(served.token);
  nic.close();
  served = Served();
  served.retry_at = now + kRetryEveryNs;
}

void Service::retry_port(std::size_t number, std::uint64_t now) {
  AgentNic& nic = *nics_[number];
  Served& served = served_[number];
  try {
    nic.open(now);
    watch_port(number);
    note_hosted(nic);
    server_->inherit(nic);
    ++counters_.port_returns;
    served.last_error.clear();
    log::info("interface is back: {}", describe(nic.report()));
  } catch (const std::exception& error) {
    nic.close();
    served.retry_at = now + kRetryEveryNs;
    // A reason that stays the same is logged once, not every second.
    if (served.last_error != error.what()) log::warn("cannot reopen interface {}, retrying every second: {}", nic.interface(), error.what());
    served.last_error = error.what();
    nic.set_why_closed(error.what());
  }
}

// Ends all sessions as by a disconnect. Then goes on for a short while, until all peers have answered and the
// disconnects for granted programs are done.
void Service::say_goodbye() {
  if (handing_over_) {
    server_->hand_over();
  } else {
    server_->end_all();
  }
  const std::uint64_t until = monotonic_ns() + kGoodbyeNs;
  for (std::uint64_t now = monotonic_ns(); now < until; now = monotonic_ns()) {
    std::uint32_t left = 0;
    for (const auto& nic : nics_) {
      if (!nic->is_open()) continue;
      nic->stack().progress(now);
      left += nic->stack().usage().goodbyes;
    }
    server_->tick(now);
    if (left == 0 && server_->grants().leaving() == 0) break;
    sched_yield();
  }
  for (const auto& nic : nics_) nic->environment().memories().set_threads(nullptr, nullptr);
  server_.reset();
}

}  // namespace viaduct
