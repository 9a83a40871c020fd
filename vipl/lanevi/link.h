// Carries packets between the interface and the peers, as long as the agent lives.
#ifndef VIADUCT_VIPL_LANEVI_LINK_H
#define VIADUCT_VIPL_LANEVI_LINK_H

#include <memory>
#include <vector>

#include "vipl/lanevi/counters.h"
#include "vipl/lanevi/directory.h"
#include "vipl/lanevi/link_nic.h"
#include "vipl/lanevi/options.h"
#include "vipl/lanevi/peer.h"
#include "vipl/lanevi/routes.h"
#include "vipl/lanevi/tun.h"

namespace viaduct::lanevi {

class Link {
 public:
  // Throws Failure.
  Link(VIP_NIC_HANDLE opened, const Options& options, Tun& tun, Counters& counters);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  VIP_CQ_HANDLE queue() const { return nic_.queue(); }
  int news() const { return directory_->news(); }

  // Each function does a bounded amount of work. True if packets came, from peers or from the interface.
  bool take_completions();
  bool read_interface();
  void take_news();
  // Does the work that is due by the clock. Returns when there will be more.
  Clock::time_point on_time(Clock::time_point now);

  // Whether a packet of the interface could be taken.
  bool may_read() const { return waiting_.slot == nullptr && !free_.empty(); }

 private:
  // A packet whose peer has no room for it. The interface is not read meanwhile.
  struct Waiting {
    Peer* peer = nullptr;
    Slot* slot = nullptr;
    std::uint32_t bytes = 0;
    Clock::time_point until{};
  };

  static void on_error(void* context, VIP_ERROR_DESCRIPTOR* error);

  void add_slots(std::size_t count);
  void add_peer(const FoundHost& host);
  const ToldPeer* told(const std::string& name) const;
  void watch(Peer& peer, Clock::time_point now);
  void begin(Peer& peer, Clock::time_point now);
  void lose(Peer& peer);

  void take_sent(Peer& peer);
  void take_received(Peer& peer);
  void on_packet(Peer& peer, const Slot& slot);
  void on_hello(Peer& peer, const Slot& slot);
  void set_routes(Peer& peer, const std::vector<IpAddress>& addresses);
  void say_hello(Peer& peer);
  void set_offload();

  void route(Slot* slot, std::uint32_t bytes);
  void send_to_all(Slot* slot, std::uint32_t bytes);
  std::chrono::milliseconds patience() const;
  void submit(Peer& peer, Slot* slot, std::uint32_t bytes);
  void post(Peer& peer, Slot* slot, std::uint32_t bytes);
  void submit_waiting();
  void drop_waiting();

  const Options& options_;
  Tun& tun_;
  Counters& counters_;
  const std::string discriminator_;
  // The memory outlives the NIC, which may write to it until it is closed.
  std::vector<SlotBlock> sends_;
  std::vector<std::unique_ptr<Peer>> peers_;
  LinkNic nic_;
  std::unique_ptr<Directory> directory_;
  std::vector<Slot*> free_;
  Routes routes_;
  Waiting waiting_;
  Clock::time_point next_look_{};
};

}  // namespace viaduct::lanevi

#endif
