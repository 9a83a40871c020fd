// Reports of the sessions for an operator's tool (report.h).
#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/service/session_server.h"

namespace viaduct {

void SessionServer::serve_report(int socket, const Peer& peer, std::span<const std::byte> message) {
  const report::Query query = judge_query(message);
  if (query.what == static_cast<std::uint32_t>(report::What::kLocalPairs)) {
    std::vector<LocalPaths::SharedPair> pairs;
    if (sees_all(peer)) pairs = local_paths_.pairs_from(query.from, report::kPairsOfPage, monotonic_ns());
    const std::vector<std::byte> answer = reports_.local_pairs(peer, query, pairs);
    std::vector<Descriptor> read_only;
    std::vector<int> files;
    for (const LocalPaths::SharedPair& pair : pairs) {
      read_only.push_back(LocalPaths::open_read_only(*pair));
      files.push_back(read_only.back().get());
    }
    send_message(socket, answer.data(), answer.size(), files);
    return;
  }
  const bool all = sees_all(peer);
  std::vector<ShownSession> sessions;
  for (const auto& [id, live] : sessions_) {
    if (all || live.session->peer().account() == peer.account()) {
      sessions.push_back({id, live.session.get(), live.attached, live.opened});
    }
  }
  std::vector<ShownProcess> processes;
  for (const auto& [id, attached_client] : attached_) {
    processes.push_back({attached_client.session, attached_client.process->program(),
                         attached_client.process->peer().pid});
  }
  const std::vector<std::byte> answer = reports_.answer(peer, query, sessions_.size(), sessions, processes);
  send_message(socket, answer.data(), answer.size());
}

}  // namespace viaduct
