// The libpcap port, for interfaces and kernels without AF_XDP: slower, same behaviour.
#ifndef VIADUCT_XDP_PCAP_PORT_H
#define VIADUCT_XDP_PCAP_PORT_H

#include <cstdint>
#include <memory>
#include <vector>

#include "xdp/bulk_path.h"
#include "xdp/interface.h"
#include "xdp/interface_lock.h"
#include "xdp/port_options.h"

struct pcap;

namespace viaduct {

class PcapPort final : public Port {
 public:
  // Throws PortError.
  PcapPort(const PortOptions& options, const Interface& interface,
           std::shared_ptr<InterfaceLock> lock);
  ~PcapPort() override;

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override;
  void submit(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override;
  void flush() override {}  // submit() has sent them
  std::uint32_t mtu() const override { return interface_.mtu; }
  MacAddress address() const override { return interface_.address; }
  std::uint32_t lendable() const override { return buffers_ / 4; }
  std::uint32_t backlog() const override { return lendable(); }
  int descriptor() const override { return fd_; }
  std::string mode() const override { return "pcap"; }
  PortCounters counters() override;
  bool alive() const override { return alive_; }
  bool reaches(const MacAddress&) const override { return true; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  std::byte* data(std::uint32_t buffer) { return &memory_[std::size_t{buffer} * stride_]; }

  Interface interface_;
  std::shared_ptr<InterfaceLock> lock_;
  pcap* pcap_ = nullptr;
  int fd_ = -1;
  std::uint32_t buffers_;
  std::size_t stride_;
  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> free_;   // both directions share the buffers
  std::uint32_t receiving_ = 0;       // of them lent to the receiver
  PortCounters counters_;
  bool alive_ = true;
  NoBulkPath no_bulk_path_{*this};
  std::uint32_t calls_ = 0;
};

}  // namespace viaduct

#endif
