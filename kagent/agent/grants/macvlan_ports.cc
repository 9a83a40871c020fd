#include "kagent/agent/grants/macvlan_ports.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "kagent/agent/process/log.h"
#include "xdp/port_error.h"
#include "xdp/grant/filter_hook.h"
#include "xdp/grant/grant.h"
#include "xdp/grant/macvlan_relay.h"
#include "xdp/xsk/chunk.h"

namespace viaduct {

class MacvlanPorts::Place final : public AgentPort {
 public:
  Place(const Grant::Options& options, OpenedTrainSocket&& trains) : grant_(options), trains_(std::move(trains)) {}
  Place(GrantFilter& filter, GrantRemains::Port&& left) : grant_(filter, std::move(left)) {
    holder_.user = left.holder.user;
    holder_.granted_segment = {left.holder.device, left.holder.granted_segment};
    holder_.umem = {left.holder.device, left.holder.umem};
  }

  ~Place() override { grant_.release(); }

  const GrantedLayout& layout() const override { return grant_.layout(); }
  int socket() const override { return grant_.socket(); }
  int umem() const override { return grant_.umem(); }
  int train_socket() const override { return trains_.socket.get(); }
  int train_guard() const override { return trains_.guard.get(); }
  TrainAddress train_address() const override { return trains_.address; }
  bool send(std::span<const std::byte> frame) override { return grant_.say(frame); }
  void end() override { grant_.end(); }
  bool is_kept() override { return grant_.is_kept(); }
  void set_holder(const Holder& holder) override {
    holder_ = holder;
    // Both files are in the system's own file system for such memory, so one device number does for them.
    grant_.enter_holder({holder.user, holder.granted_segment.device, holder.granted_segment.inode, holder.umem.inode});
  }
  Holder holder() const override { return holder_; }
  void take_umem(int umem) override { grant_.take_umem(umem); }
  void leave() override { grant_.leave(); }

  GrantedCounters counters() override {
    const GrantFilter::Counts filter = grant_.counts();
    GrantedCounters out;
    out.passed = filter.passed;
    out.forged_source = filter.forged_source;
    out.wrong_type = filter.wrong_type;
    out.too_long = filter.too_long;
    out.forbidden = filter.forbidden;
    xdp_statistics kernel{};
    socklen_t bytes = sizeof kernel;
    if (getsockopt(grant_.socket(), SOL_XDP, XDP_STATISTICS, &kernel, &bytes) == 0) {
      out.rx_dropped_ring_full = kernel.rx_ring_full;
      out.rx_dropped_no_fill = kernel.rx_fill_ring_empty_descs;
      // The kernel counts a frame that found the fill ring empty in rx_dropped, too.
      out.rx_dropped_invalid =
          kernel.rx_dropped - std::min(kernel.rx_dropped, kernel.rx_fill_ring_empty_descs) +
          kernel.rx_invalid_descs;
      out.tx_dropped_invalid = kernel.tx_invalid_descs;
    }
    return out;
  }

 private:
  Grant grant_;
  OpenedTrainSocket trains_;
  Holder holder_;
};

MacvlanPorts::MacvlanPorts(const NicConfig& config, HostPort& port)
    : lower_(query_interface(config.interface)), ether_type_(config.ether_type), trains_(config.trains), port_(port),
      lendable_(port.lendable()) {
  const bool pcap = port.mode() == "pcap";
  GrantRemains remains;
  if (pcap) {
    remains.removed = remove_remains(lower_);
  } else {
    remains = take_remains(lower_, ether_type_);
  }
  if (remains.removed != 0) {
    log::info("{}: removed {} granted ports that an earlier agent had left", lower_.name,
              remains.removed);
  }
  if (pcap) throw PortError(lower_.name + ": libpcap carries the frames, ports need AF_XDP");
  if (!remains.ports.empty()) go_on_with(remains);
  if (prepare_hook(lower_.index)) {
    log::info("{}: made a clsact qdisc for the egress filter, without TCX; the kernel drops what is sent meanwhile",
              lower_.name);
  }
}

void MacvlanPorts::go_on_with(GrantRemains& remains) {
  try {
    make_filter(&remains);
  } catch (const PortError& error) {
    log::warn("{}; removing the granted ports that an earlier agent had left", error.what());
    remove_remains(lower_);
    return;
  }
  log::info("{}: kept {} granted ports that an earlier agent had left, for their programs", lower_.name,
            remains.ports.size());
  for (GrantRemains::Port& port : remains.ports) {
    left_.push_back(std::make_unique<Place>(*filter_, std::move(port)));
  }
}

void MacvlanPorts::make_filter(const GrantRemains* remains) {
  filter_ = std::make_unique<GrantFilter>(lower_, ether_type_, remains);
  if (!filter_->why_classic().empty()) log::warn("{}; it is attached by clsact", filter_->why_classic());
}

std::unique_ptr<AgentPort> MacvlanPorts::make(std::uint32_t umem_bytes) {
  if (filter_ == nullptr) make_filter(nullptr);
  make_relay();
  Grant::Options options{*filter_};
  options.ether_type = ether_type_;
  options.umem_bytes = umem_bytes;
  // A quarter more memory for frames of twice the size: the kernel can then receive as long a burst as ever, and a
  // window of frames can be kept. Still more would not stay in the cache, or below 8 MB in all.
  if (chunk_for(lower_.mtu) > chunk_for(1500)) options.umem_bytes += umem_bytes / 4;
  std::string said;
  options.note = [&said](std::string_view text) {
    said += (said.empty() ? "" : "; ") + std::string(text);
  };
  options.parts = parts_;
  auto place = std::make_unique<Place>(options, open_trains());
  if (!said.empty() && !std::exchange(frame_size_warned_, true)) log::warn("{}", said);
  parts_ = place->layout().mtu > mtu_in_chunk(lower_.mtu);
  return place;
}

// Opens trains if it can: a port without trains is a port all the same.
OpenedTrainSocket MacvlanPorts::open_trains() {
  if (!trains_) return {};
  try {
    return open_train_socket(lower_.name);
  } catch (const PortError& error) {
    if (!std::exchange(no_trains_warned_, true)) log::warn("{}", error.what());
    return {};
  }
}

// The relay takes as long to make as a port, so it is made in the same thread, and waits to be opened.
void MacvlanPorts::make_relay() {
  const std::lock_guard lock(relay_mutex_);
  if (relay_opened_ || relay_ != nullptr) return;
  relay_ = std::make_unique<MacvlanRelay>(*filter_, ether_type_, lendable_);
}

void MacvlanPorts::admit(AgentPort& port) {
  if (!port_.has_relay()) {
    make_relay();  // unless it is there: for a port that an earlier agent has made
    const std::lock_guard lock(relay_mutex_);
    port_.open_relay(std::move(relay_));
    relay_opened_ = true;
  }
  port_.add(port.layout().address);
}

void MacvlanPorts::dismiss(AgentPort& port) { port_.remove(port.layout().address); }

}  // namespace viaduct
