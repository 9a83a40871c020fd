#include "kagent/tools/viadump/agent_programs.h"

#include <algorithm>
#include <stdexcept>

#include "kagent/contract/vip_codes.h"
#include "kagent/tools/viactl/words.h"

namespace viaduct::dump {
namespace {

constexpr auto kPause = std::chrono::milliseconds(200);

MacAddress address_of(const std::uint8_t* bytes) {
  MacAddress out;
  std::copy_n(bytes, out.size(), out.begin());
  return out;
}

bool is_set(const MacAddress& address) { return address != MacAddress{}; }

}  // namespace

void AgentPrograms::refresh(Endpoints& out) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  try {
    ask(out);
  } catch (const std::runtime_error&) {
    // The agent is not running, or refuses: frames are shown without programs.
  }
  next_ = std::chrono::steady_clock::now() + kPause;
}

// The VIs of a granted session are at the address of its port, those of a hosted one at that of the NIC.
void AgentPrograms::ask(Endpoints& out) const {
  const auto nics = agent_.nics();
  const auto sessions = agent_.sessions();
  for (const report::Nic& nic : nics) out.add_local(address_of(nic.address));
  for (const report::Session& session : sessions) {
    if (is_set(address_of(session.port))) out.add_local(address_of(session.port));
  }
  for (const report::Vi& vi : agent_.vis(sessions, nics.size())) {
    const auto session = std::find_if(sessions.begin(), sessions.end(),
                                      [&](const report::Session& each) { return each.id == vi.session; });
    if (session == sessions.end() || session->nic >= nics.size()) continue;
    const MacAddress port = address_of(session->port);
    const Endpoint own{is_set(port) ? port : address_of(nics[session->nic].address), vi.vi};
    const std::uint32_t process = vi.process != 0 ? vi.process : session->process;
    out.set_program(own, {process, tool::program_text(process)});
    const MacAddress peer = address_of(vi.peer);
    if (is_set(peer)) out.connect(own, {peer, vi.peer_vi});
  }
}

std::string AgentPrograms::mode_of(const std::string& interface) const {
  try {
    for (const report::Nic& nic : agent_.nics()) {
      if (interface == nic.interface) return nic.mode;
    }
  } catch (const std::runtime_error&) {
  }
  return "";
}

}  // namespace viaduct::dump
