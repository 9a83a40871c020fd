#include "examples/viabench/via_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::check;
using via::Failure;
using via::format;

constexpr VIP_ULONG kConnectMs = 5000;

// A program with a port of its own holds its AF_XDP socket.
bool has_port_of_its_own() {
  constexpr int kMostFiles = 1024;
  for (int fd = 3; fd < kMostFiles; ++fd) {
    int domain = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_XDP) {
      return true;
    }
  }
  return false;
}

// The library reads it when a NIC is opened.
std::string device_in(const std::string& placement, const std::string& device) {
  setenv("VIADUCT_PLACEMENT", placement.c_str(), 1);
  return device;
}

void require_placement(const std::string& placement) {
  const std::string is = has_port_of_its_own() ? "granted" : "hosted";
  if (is != placement) throw Failure("the NIC is " + is + ", not " + placement);
}

}  // namespace

ViaLink::ViaLink(const Case& c, const Site& site)
    : case_(c), nic_(device_in(c.transport, site.device)), local_(nic_.address()) {
  require_placement(c.transport);
  if (c.size > nic_.attributes().MaxTransferSize) throw Failure("the NIC's messages are shorter");
}

VIP_VI_ATTRIBUTES ViaLink::attributes() const {
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = case_.level == "ud"   ? VIP_SERVICE_UNRELIABLE
                                : case_.level == "rr" ? VIP_SERVICE_RELIABLE_RECEPTION
                                                      : VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = std::max(case_.size, 64u);
  return attributes;
}

void ViaLink::listen(const Reporter& report) {
  // Unique: no other process uses it, nor a sample that has been given up.
  const auto now = static_cast<unsigned long long>(Clock::now().time_since_epoch().count());
  const std::string point = format("viabench-%d-%llx", getpid(), now);
  local_.set_discriminator(point.data(), point.size());
  report.ready(via::address_text(nic_.attributes().LocalNicAddress) + " " + point);
}

VIP_CONN_HANDLE ViaLink::await_request() {
  via::Address from;
  from.get()->HostAddressLen = nic_.attributes().NicAddressLen;
  from.get()->DiscriminatorLen = nic_.attributes().MaxDiscriminatorLen;
  VIP_VI_ATTRIBUTES theirs{};
  VIP_CONN_HANDLE connection = nullptr;
  check(VipConnectWait(nic_.handle(), local_.get(), kConnectMs, from.get(), &theirs, &connection),
        "VipConnectWait");
  return connection;
}

void ViaLink::accept(VIP_VI_HANDLE vi) {
  check(VipConnectAccept(await_request(), vi), "VipConnectAccept");
}

void ViaLink::aim(const std::string& where) {
  unsigned a[6];
  char point[100];
  if (std::sscanf(where.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x %99s", &a[0], &a[1], &a[2], &a[3], &a[4],
                  &a[5], point) != 7) {
    throw Failure("the far end says no address");
  }
  remote_.get()->HostAddressLen = 6;
  for (int i = 0; i < 6; ++i) remote_.host()[i] = static_cast<std::uint8_t>(a[i]);
  remote_.set_discriminator(point, std::strlen(point));
  local_.set_discriminator("near", 4);
}

void ViaLink::connect(VIP_VI_HANDLE vi) {
  VIP_VI_ATTRIBUTES theirs{};
  check(VipConnectRequest(vi, local_.get(), remote_.get(), kConnectMs, &theirs),
        "VipConnectRequest");
}

bool granted_available(const Site& site, std::string& reason) {
  int ends[2];
  if (pipe(ends) != 0) throw Failure("no pipe");
  const Fd from(ends[0]);
  Fd to(ends[1]);
  Process probe = start_worker(to.get(), [&](const Reporter&) {
    const via::Nic nic(device_in("granted", site.device));
    require_placement("granted");
  });
  to.reset();
  LineReader lines(from.get());
  std::string line;
  if (lines.next(line, Clock::now() + kSampleLimit) == LineReader::Result::kLine) {
    begins(line, "failed", reason);
    return false;
  }
  int status = 1;
  while (!probe.ended(status)) usleep(1000);
  return status == 0;
}

}  // namespace viabench
