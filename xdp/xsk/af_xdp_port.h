// The AF_XDP port: one socket for each receive queue of the interface, sending through the first.
//
// Things not worth a look at every frame (the guard, the interface, a transmission that stands
// still) are looked at in counters(), and now and then in receive(): a driver that sleeps for long
// should ask for the counters a few times a second.
#ifndef VIADUCT_XDP_XSK_AF_XDP_PORT_H
#define VIADUCT_XDP_XSK_AF_XDP_PORT_H

#include <cstdint>
#include <memory>
#include <vector>

#include "xdp/xsk/af_xdp_queue.h"
#include "xdp/bulk_path.h"
#include "xdp/interface.h"
#include "xdp/interface_lock.h"
#include "xdp/port_options.h"
#include "xdp/bpf/attachment.h"

namespace viaduct {

class AfXdpPort final : public Port {
 public:
  // `way`: TCX, native or generic mode. Throws PortError.
  AfXdpPort(const PortOptions& options, const Interface& interface,
            std::shared_ptr<InterfaceLock> lock, PortKind way);
  ~AfXdpPort() override;

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override;
  void submit(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override;
  void flush() override;
  std::uint32_t mtu() const override { return mtu_; }
  MacAddress address() const override { return interface_.address; }
  std::uint32_t lendable() const override { return lendable_; }
  // A sender's frames may all come to one queue.
  std::uint32_t backlog() const override { return queues_.front()->backlog(); }
  int descriptor() const override;
  std::string mode() const override;
  PortCounters counters() override;
  bool alive() const override { return alive_; }
  bool reaches(const MacAddress&) const override { return true; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  void set_up(const PortOptions& options);
  void attach(const PortOptions& options, bool frags);
  void open_queues(const PortOptions& options, std::uint32_t parts_mtu);
  void look_after();
  void look_for_stall(std::uint64_t time);
  void rebind(std::uint64_t time);
  void enter(std::uint32_t number);

  Interface interface_;
  std::shared_ptr<InterfaceLock> lock_;
  PortKind way_;
  std::uint32_t mtu_;
  std::uint32_t lendable_;
  PortCounters counters_;
  std::unique_ptr<Attachment> attachment_;
  std::vector<std::unique_ptr<AfXdpQueue>> queues_;
  int epoll_ = -1;          // over the queues, when there are several or one is away
  std::size_t turn_ = 0;    // queue to look at first
  bool alive_ = true;
  NoBulkPath no_bulk_path_{*this};
  std::uint32_t calls_ = 0;
  std::uint64_t completed_ = 0;      // at the last look
  std::uint64_t stalled_since_ = 0;  // ns; 0: it is moving
  std::uint64_t away_since_ = 0;     // ns; 0: the first queue has its socket
};

}  // namespace viaduct

#endif
