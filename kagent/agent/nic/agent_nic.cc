#include "kagent/agent/nic/agent_nic.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "kagent/agent/process/log.h"
#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kHardwareVersion = 1;
constexpr std::uint32_t kProviderVersion = 1;

}  // namespace

AgentNic::AgentNic(const NicConfig& config, const Config& all, OpenPort open_port,
                   HostNames::Addresses addresses, MakeGranter make_granter)
    : config_(config),
      limits_(all.limits),
      open_port_(std::move(open_port)),
      environment_(all.limits.sessions + all.limits.members, all.name, all.hosts, std::move(addresses)),
      make_granter_(std::move(make_granter)) {
  environment_.set_interface(config.interface);
  environment_.users().set_limits(all.user_limits, all.limits.vis, all.limits.regions);
}

AgentNic::~AgentNic() { close(); }

void AgentNic::open(std::uint64_t now) {
  auto port = std::make_unique<HostPort>(open_port_());
  std::unique_ptr<Granter> granter;
  why_closed_.clear();
  why_not_granted_ = "no ports are granted on " + config_.interface;
  try {
    if (make_granter_) granter = make_granter_(*port);
  } catch (const PortError& error) {
    why_not_granted_ = error.what();
  }
  if (config_.trains) open_trains(*port);
  const std::size_t bytes = Stack::footprint(limits_);
  void* const segment = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (segment == MAP_FAILED) {
    throw PortError(config_.interface + ": no memory for the NIC's tables (" +
                    std::to_string(bytes >> 20) + " MiB); make [limits] smaller");
  }
  segment_ = segment;
  port_ = std::move(port);
  granter_ = std::move(granter);
  ports_made_ = 0;
  counters_of_dismissed_ = {};
  environment_.names().set_address(port_->address());
  const MacAddress address = port_->address();
  stack_ = std::make_unique<Stack>(segment_, limits_, config_.ether_type, *port_, environment_,
                                   StackAddresses{address, address}, now);
}

// Opens trains if it can: a NIC without trains is a NIC all the same.
void AgentNic::open_trains(HostPort& port) const {
  try {
    if (port.mode() != "loopback") port.open_trains(open_train_socket(config_.interface), wire::kTrainTypes);
  } catch (const PortError& error) {
    log::info("{}; long messages go as short ones do", error.what());
  }
}

void AgentNic::close() {
  stack_.reset();
  port_.reset();
  granter_.reset();
  if (segment_ != nullptr) munmap(segment_, Stack::footprint(limits_));
  segment_ = nullptr;
}

void AgentNic::admit(AgentPort& port) {
  granter_->admit(port);  // throws
  granted_.push_back(&port);
  ++ports_made_;
}

void AgentNic::dismiss(AgentPort& port) {
  add_to(counters_of_dismissed_, port.counters());
  granter_->dismiss(port);
  std::erase(granted_, &port);
}

control::NicAttributes AgentNic::attributes() const {
  control::NicAttributes out;
  std::memset(&out, 0, sizeof out);
  config_.interface.copy(out.name, sizeof out.name - 1);
  const MacAddress address = stack_->address();
  std::copy(address.begin(), address.end(), out.address);
  out.hardware_version = kHardwareVersion;
  out.provider_version = kProviderVersion;
  out.max_discriminator = layout::kMaxDiscriminator;
  out.max_regions = limits_.regions;
  out.max_bytes = limits_.session_bytes;
  out.max_block_bytes = limits_.session_bytes;
  out.max_vis = limits_.vis;
  out.max_descriptors = std::min(layout::kRingEntries, limits_.slots);
  out.max_segments = layout::kMaxDataSegments;
  out.max_cqs = limits_.cqs;
  out.max_cq_entries = limits_.cq_entries;
  out.max_transfer = limits_.max_transfer;
  out.native_mtu = stack_->mtu();
  out.max_ptags = limits_.ptags;
  out.reliability_support = vip::kUnreliable | vip::kReliableDelivery | vip::kReliableReception;
  out.rdma_read_support = vip::kReliableDelivery | vip::kReliableReception;
  return out;
}

NicReport AgentNic::report() const {
  NicReport out{config_.interface, limits_, std::nullopt};
  if (stack_ != nullptr) {
    out.live = NicReport::Live{port_->mode(),     stack_->address(),  stack_->mtu(),
                               port_->counters(), stack_->counters(), stack_->usage(),
                               static_cast<std::uint32_t>(granted_.size()), ports_made_,
                               counters_of_dismissed_};
    if (port_->trains() != nullptr) out.live->trains = port_->trains()->counters();
    for (AgentPort* const each : granted_) add_to(out.live->granted, each->counters());
  }
  return out;
}

}  // namespace viaduct
