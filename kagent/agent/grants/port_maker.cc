#include "kagent/agent/grants/port_maker.h"

#include <algorithm>
#include <utility>

namespace viaduct {

namespace {

constexpr std::uint32_t kBytesPerKb = 1024;

}  // namespace

void PortMaker::make(AgentNic& nic, uid_t user, Made made) {
  Stock& stock = stocks_[&nic];
  stock.nic = &nic;
  ++stock.asked;
  stock.wanted = std::max(stock.wanted, std::min(stock.asked, policy_.ready_ports));
  const std::uint64_t now = monotonic_ns();
  next_look_ = std::min(next_look_, now + kAskedNs);
  next_fill_ = std::min(next_fill_, now + kAheadNs);
  waiting_.push_back({&nic, user, std::move(made), now + kMakingNs, nullptr});
  go_on();
}

std::uint32_t PortMaker::held_back() const {
  const auto is_held_back = [](const Waiting& each) { return each.in_vain == nullptr; };
  return static_cast<std::uint32_t>(std::count_if(waiting_.begin(), waiting_.end(), is_held_back));
}

std::uint32_t PortMaker::held_back(uid_t user) const {
  const auto is_held_back = [user](const Waiting& each) { return each.in_vain == nullptr && each.user == user; };
  return static_cast<std::uint32_t>(std::count_if(waiting_.begin(), waiting_.end(), is_held_back));
}

// How many ports there may be besides those that there are, or that are being made for programs.
std::uint32_t PortMaker::room() const {
  const std::uint32_t ports = ports_ - held_back();
  return policy_.ports - std::min(policy_.ports, ports);
}

void PortMaker::go_on() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto each = next++;
    if (each->in_vain != nullptr) continue;
    if (room() == 0) return;
    if (!fits_(each->user, held_back(each->user))) continue;
    Stock& stock = stocks_[each->nic];
    if (!stock.ready.empty()) {
      auto port = std::move(stock.ready.back());
      stock.ready.pop_back();
      give(each, std::move(port));
      continue;
    }
    try {
      each->in_vain = begin(*each->nic, false);
    } catch (const std::system_error& error) {
      refuse(each, error.what());
    }
  }
}

void PortMaker::give(std::list<Waiting>::iterator at, std::unique_ptr<AgentPort> port) {
  const Made made = std::move(at->made);
  waiting_.erase(at);
  made(std::move(port), "");
}

void PortMaker::refuse(std::list<Waiting>::iterator at, const std::string& why) {
  const Waiting waiting = std::move(*at);
  waiting_.erase(at);
  if (waiting.in_vain != nullptr) *waiting.in_vain = true;
  waiting.made(nullptr, why);
}

// Has ports made ahead until as many are ready as are wanted.
void PortMaker::fill(Stock& stock) {
  const std::size_t wanted = std::min(stock.wanted, room());
  while (stock.ready.size() + stock.being_made.size() < wanted) {
    try {
      stock.being_made.push_back(begin(*stock.nic, true));
    } catch (const std::system_error&) {
      return;  // there is no thread: programs that wait are told so
    }
  }
}

std::shared_ptr<std::atomic<bool>> PortMaker::begin(AgentNic& nic, bool ahead) {
  struct Result {
    std::unique_ptr<AgentPort> port;
    std::string why;
  };
  const auto result = std::make_shared<Result>();
  const auto in_vain = std::make_shared<std::atomic<bool>>(false);
  const auto work = [result, in_vain, granter = nic.granter(), bytes = policy_.umem_kb * kBytesPerKb] {
    if (*in_vain) return;
    try {
      result->port = granter->make(bytes);
    } catch (const std::exception& error) {
      result->why = error.what();
    }
  };
  const auto done = [this, result, in_vain, &nic, ahead] {
    if (ahead) std::erase(stocks_[&nic].being_made, in_vain);
    on_made(nic, ahead, std::move(result->port), result->why);
  };
  makes_.give(work, done);
  return in_vain;
}

// The oldest program that has a port made for it has this one, even if another had it made.
void PortMaker::on_made(AgentNic& nic, bool ahead, std::unique_ptr<AgentPort> port, const std::string& why) {
  if (port == nullptr && (ahead || why.empty())) return;
  const auto first = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& each) { return each.nic == &nic && each.in_vain != nullptr; });
  if (first != waiting_.end()) return port != nullptr ? give(first, std::move(port)) : refuse(first, why);
  if (port == nullptr) return;
  Stock& stock = stocks_[&nic];
  stock.ready.push_back(std::move(port));
  go_on();
  shrink(stock, std::min(stock.wanted, room()));
}

void PortMaker::discard(std::unique_ptr<AgentPort> port) {
  const auto ending = std::shared_ptr<AgentPort>(std::move(port));  // a function must be copyable, and a port is not
  ends_.give([ending] { ending->end(); }, {});
}

// Gives up all ready ports but `most`.
void PortMaker::shrink(Stock& stock, std::size_t most) {
  while (stock.ready.size() > most) {
    discard(std::move(stock.ready.back()));
    stock.ready.pop_back();
  }
}

void PortMaker::tick(std::uint64_t now) {
  while (!waiting_.empty() && waiting_.front().until <= now) {
    refuse(waiting_.begin(), "no port could be made within " + std::to_string(kMakingNs / kNsPerSecond) +
                                 " s, this host is busy");
  }
  if (now >= next_fill_) {
    next_fill_ = kNever;
    for (auto& [nic, stock] : stocks_) fill(stock);
  }
  if (now < next_look_) return;
  next_look_ = kNever;
  for (auto& [nic, stock] : stocks_) {
    stock.wanted = std::min(std::max(stock.asked, 1u), policy_.ready_ports);
    if (std::exchange(stock.asked, 0) != 0) next_look_ = now + kAskedNs;
    shrink(stock, stock.wanted);
  }
}

std::uint64_t PortMaker::next_deadline() const {
  const std::uint64_t next = std::min(next_look_, next_fill_);
  return waiting_.empty() ? next : std::min(next, waiting_.front().until);
}

void PortMaker::leave(const AgentNic& nic) {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto each = next++;
    if (each->nic == &nic && each->in_vain == nullptr) refuse(each, "the interface has gone");
  }
  const auto at = stocks_.find(&nic);
  if (at == stocks_.end()) return;
  Stock& stock = at->second;
  stock.asked = stock.wanted = 0;
  for (const auto& in_vain : stock.being_made) *in_vain = true;
  shrink(stock, 0);
}

void PortMaker::leave() {
  for (const auto& [nic, stock] : stocks_) leave(*nic);
}

std::size_t PortMaker::ready(const AgentNic& nic) const {
  const auto stock = stocks_.find(&nic);
  return stock == stocks_.end() ? 0 : stock->second.ready.size();
}

}  // namespace viaduct
