// One NIC of the agent: a port, the stack that works on it, and the stack's segment.
//
// The port may go away (the interface was removed) and come back; in between the NIC is closed and
// has no stack. Sessions are the session server's; they must have ended before the NIC is closed.
#ifndef VIADUCT_KAGENT_NIC_H
#define VIADUCT_KAGENT_NIC_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kagent/config.h"
#include "kagent/control.h"
#include "kagent/counter_table.h"
#include "kagent/program_environment.h"
#include "kagent/stack.h"
#include "xdp/open_port.h"

namespace viaduct {

class Nic {
 public:
  // Throws PortError.
  using OpenPort = std::function<std::unique_ptr<Port>()>;

  // `config` and `all` must outlive the NIC.
  Nic(const NicConfig& config, const Config& all, OpenPort open_port,
      ProgramEnvironment::Addresses addresses);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  // Throws PortError, also when there is no memory for the stack.
  void open(std::uint64_t now);
  void close();
  bool is_open() const { return stack_ != nullptr; }

  // While open.
  Stack& stack() { return *stack_; }
  Port& port() { return *port_; }
  ProgramEnvironment& environment() { return environment_; }
  control::NicAttributes attributes() const;

  const std::string& interface() const { return config_.interface; }
  const NicConfig& config() const { return config_; }
  NicReport report() const;

 private:
  const NicConfig& config_;
  const StackLimits& limits_;
  OpenPort open_port_;
  ProgramEnvironment environment_;
  std::unique_ptr<Port> port_;
  void* segment_ = nullptr;
  std::unique_ptr<Stack> stack_;
};

}  // namespace viaduct

#endif
