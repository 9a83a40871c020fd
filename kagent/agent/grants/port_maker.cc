#include "kagent/agent/grants/port_maker.h"

#include <algorithm>
#include <utility>

namespace viaduct {

constexpr std::uint32_t kBytesPerKb = 1024;

void PortMaker::make(AgentNic& nic, Made made) {
  Stock& stock = stocks_[&nic];
  ++stock.asked;
  stock.wanted = std::max(stock.wanted, std::min(stock.asked, policy_.ready_ports));
  if (next_look_ == ~std::uint64_t{0}) next_look_ = monotonic_ns() + kAskedNs;
  if (stock.ready.empty()) {
    waiting_.push_back({&nic, std::move(made), monotonic_ns() + kMakingNs, begin(nic, false)});
    return fill(nic);
  }
  auto port = std::move(stock.ready.back());
  stock.ready.pop_back();
  fill(nic);
  made(std::move(port), "");
}

// Has ports made ahead until as many are ready as are wanted.
void PortMaker::fill(AgentNic& nic) {
  Stock& stock = stocks_[&nic];
  const std::size_t wanted = std::min(stock.wanted, room_());
  while (stock.ready.size() + stock.being_made.size() < wanted) {
    try {
      stock.being_made.push_back(begin(nic, true));
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
  worker_.give(work, done);
  return in_vain;
}

// The oldest program that waits has the port, even if another had it made.
void PortMaker::on_made(AgentNic& nic, bool ahead, std::unique_ptr<AgentPort> port, const std::string& why) {
  const auto first = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) { return each.nic == &nic; });
  if (port == nullptr && (ahead || why.empty())) return;
  if (first != waiting_.end()) {
    const Made made = std::move(first->made);
    waiting_.erase(first);
    return made(std::move(port), why);
  }
  if (port == nullptr) return;
  Stock& stock = stocks_[&nic];
  stock.ready.push_back(std::move(port));
  keep(stock, std::min(stock.wanted, room_()));
}

void PortMaker::discard(std::unique_ptr<AgentPort> port) {
  const auto ending = std::shared_ptr<AgentPort>(std::move(port));  // a function must be copyable, and a port is not
  worker_.give([ending] { ending->end(); }, {});
}

// Gives up all ready ports but `most`.
void PortMaker::keep(Stock& stock, std::size_t most) {
  while (stock.ready.size() > most) {
    discard(std::move(stock.ready.back()));
    stock.ready.pop_back();
  }
}

void PortMaker::tick(std::uint64_t now) {
  while (!waiting_.empty() && waiting_.front().until <= now) {
    const Waiting late = std::move(waiting_.front());
    waiting_.pop_front();
    *late.in_vain = true;
    late.made(nullptr, "no port could be made within " + std::to_string(kMakingNs / kNsPerSecond) +
                           " s, this host is busy");
  }
  if (now < next_look_) return;
  next_look_ = ~std::uint64_t{0};
  for (auto& [nic, stock] : stocks_) {
    stock.wanted = std::min(std::max(stock.asked, 1u), policy_.ready_ports);
    if (std::exchange(stock.asked, 0) != 0) next_look_ = now + kAskedNs;
    keep(stock, stock.wanted);
  }
}

std::uint64_t PortMaker::next_deadline() const {
  return waiting_.empty() ? next_look_ : std::min(next_look_, waiting_.front().until);
}

void PortMaker::leave(const AgentNic& nic) {
  const auto at = stocks_.find(&nic);
  if (at == stocks_.end()) return;
  Stock& stock = at->second;
  stock.asked = stock.wanted = 0;
  for (const auto& in_vain : stock.being_made) *in_vain = true;
  keep(stock, 0);
}

void PortMaker::leave() {
  for (const auto& [nic, stock] : stocks_) leave(*nic);
}

std::size_t PortMaker::ready(const AgentNic& nic) const {
  const auto stock = stocks_.find(&nic);
  return stock == stocks_.end() ? 0 : stock->second.ready.size();
}

}  // namespace viaduct
