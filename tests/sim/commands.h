// Commands of clients and servers.
#ifndef VIADUCT_TESTS_SIM_COMMANDS_H
#define VIADUCT_TESTS_SIM_COMMANDS_H

#include <cstdint>
#include <cstring>

#include "tests/sim/pair.h"

namespace viaduct::sim {

using layout::CommandBody;
using layout::Op;

inline CommandBody wait_for(std::uint32_t discriminator, std::uint64_t timeout_ms) {
  CommandBody body{};
  body.op = Op::kConnectWait;
  body.timeout_ms = timeout_ms;
  body.local.discriminator_length = 4;
  std::memcpy(body.local.discriminator, &discriminator, 4);
  return body;
}

inline CommandBody request(std::uint32_t vi, const MacAddress& to, std::uint32_t discriminator,
                           std::uint64_t timeout_ms) {
  CommandBody body{};
  body.op = Op::kConnectRequest;
  body.vi = vi;
  body.timeout_ms = timeout_ms;
  std::memcpy(body.remote.host, to.data(), to.size());
  body.remote.discriminator_length = 4;
  std::memcpy(body.remote.discriminator, &discriminator, 4);
  return body;
}

inline CommandBody with_handle(Op op, std::uint32_t handle, std::uint32_t vi = 0) {
  CommandBody body{};
  body.op = op;
  body.handle = handle;
  body.vi = vi;
  return body;
}

}  // namespace viaduct::sim

#endif
