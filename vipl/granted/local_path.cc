#include "vipl/granted/local_path.h"

#include "kagent/contract/wire.h"
#include "vipl/process/sys.h"
#include "vipl/session/debug_log.h"

namespace viaduct::vipl::local_path {

void add(Driver& driver, const MacAddress& peer, std::uint64_t program, int file, unsigned end) {
  if (!driver.hold()) {
    sys::close(file);
    return;
  }
  GrantedPort& port = driver.port();
  wire::Header header{};
  header.type = wire::Type::kWake;
  WholeFrame wake;
  static_assert(wire::kEthernetBytes + wire::kHeaderBytes + wire::kChecksumBytes <= sizeof wake &&
                wire::kMinFrameBytes == sizeof wake);
  wire::encode(header, peer, port.address(), port.ether_type(), wake.data());
  const char* const failed = port.add_local(peer, program, file, end, wake);
  driver.go_on(nullptr);
  if (failed != nullptr) explain("no local path to another program of this host: %s", failed);
}

void end(Driver& driver, const MacAddress& peer) {
  if (!driver.hold()) return;
  driver.port().end_local(peer);
  driver.go_on(nullptr);
}

}  // namespace viaduct::vipl::local_path
