#include "kagent/tools/viactl/agent_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "kagent/agent/control/ask_agent.h"
#include "kagent/agent/config/config.h"
#include "kagent/agent/control/counters_client.h"
#include "kagent/contract/vip_codes.h"
#include "xdp/descriptor.h"

namespace viaduct::tool {
namespace {

using report::What;

constexpr unsigned kMostPages = 4096;
constexpr unsigned kMostRepeats = 100;
constexpr useconds_t kPauseUs = 20'000;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

report::Query query_for(What what) {
  report::Query out{};
  out.head = control::MessageHead{};
  out.head.kind = report::kKind;
  out.head.bytes = sizeof out;
  out.what = static_cast<std::uint32_t>(what);
  return out;
}

struct Packet {
  alignas(16) std::byte bytes[report::kMaxAnswerBytes];
  std::size_t length = 0;
  std::vector<Descriptor> files;
};

// Asks one question on a connection of its own.
void exchange(const std::string& socket_name, const report::Query& query, Packet& packet) {
  AgentAnswer answer = ask_agent(socket_name, &query, sizeof query, packet.bytes);
  packet.files = std::move(answer.files);
  packet.length = answer.bytes;
}

// Returns the head of a good answer; throws if the answer is none. `ready` is false: ask again in a while.
report::Answer judge(const Packet& packet, bool& ready) {
  control::MessageHead head;
  if (packet.length < sizeof head) fail("the agent hung up");
  std::memcpy(&head, packet.bytes, sizeof head);
  if (head.kind != report::kKind) {
    control::HelloAnswer refusal{};
    std::memcpy(&refusal, packet.bytes, std::min(packet.length, sizeof refusal));
    refusal.reason[sizeof refusal.reason - 1] = '\0';
    fail(std::string("the agent refuses: ") + refusal.reason);
  }
  report::Answer answer;
  if (packet.length < sizeof answer) fail("the agent's answer is too short");
  std::memcpy(&answer, packet.bytes, sizeof answer);
  ready = answer.head.result == vip::kSuccess;
  if (answer.count > report::kMostRecords || answer.record_bytes > report::kMaxAnswerBytes ||
      packet.length < sizeof answer + std::size_t{answer.count} * answer.record_bytes) {
    fail("the agent's answer is too short");
  }
  return answer;
}

}  // namespace

// Adds a page to `out`. Returns where the next page begins. `files`: descriptors that came with the answer.
template <class Record>
std::uint64_t AgentClient::ask_page(const report::Query& query, std::vector<Record>& out,
                                    std::vector<Descriptor>* files) const {
  Packet packet;
  report::Answer answer;
  bool ready = false;
  for (unsigned repeats = 0; !ready; ++repeats) {
    if (repeats > kMostRepeats) fail("the agent has no time for reports to this user; try again later");
    if (repeats > 0) usleep(kPauseUs);
    exchange(socket_name_, query, packet);
    answer = judge(packet, ready);
  }
  if (files != nullptr) *files = std::move(packet.files);
  // An agent of another version may know less, or more, of a record.
  const std::size_t known = std::min<std::size_t>(answer.record_bytes, sizeof(Record));
  for (std::uint32_t i = 0; i < answer.count; ++i) {
    Record record{};
    std::memcpy(static_cast<void*>(&record), packet.bytes + sizeof answer + std::size_t{i} * answer.record_bytes,
                known);
    out.push_back(record);
  }
  return answer.next;
}

template <class Record>
std::vector<Record> AgentClient::ask(report::Query query) const {
  std::vector<Record> out;
  for (unsigned page = 0; page < kMostPages; ++page) {
    const std::uint64_t next = ask_page(query, out);
    if (next <= query.from) break;
    query.from = next;
  }
  return out;
}

std::string find_socket(const std::string& option) {
  std::string told = option.empty() ? socket_of_environment() : option;
  if (told.empty() && access(kDefaultConfigFile, R_OK) == 0) {
    try {
      told = read_config(kDefaultConfigFile).socket;
    } catch (const ConfigError&) {
      // The agent runs by an earlier configuration, or by none.
    }
  }
  return told.empty() ? default_agent_socket() : told;
}

report::Status AgentClient::status() const {
  const auto records = ask<report::Status>(query_for(What::kStatus));
  if (records.size() != 1) fail("the agent's answer is empty");
  report::Status out = records[0];
  out.version[sizeof out.version - 1] = out.host[sizeof out.host - 1] = '\0';
  return out;
}

std::vector<report::Nic> AgentClient::nics() const {
  auto out = ask<report::Nic>(query_for(What::kNics));
  for (report::Nic& nic : out) {
    nic.interface[sizeof nic.interface - 1] = nic.mode[sizeof nic.mode - 1] = '\0';
    nic.why_not_granted[sizeof nic.why_not_granted - 1] = '\0';
  }
  return out;
}

std::vector<report::Session> AgentClient::sessions() const {
  return ask<report::Session>(query_for(What::kSessions));
}

std::vector<report::Vi> AgentClient::vis(const std::vector<report::Session>& sessions, std::size_t nics) const {
  std::set<std::uint32_t> hosted_on;
  std::vector<report::Vi> out;
  const auto add = [&](const report::Query& query) {
    const auto more = ask<report::Vi>(query);
    out.insert(out.end(), more.begin(), more.end());
  };
  for (const report::Session& session : sessions) {
    report::Query query = query_for(What::kVis);
    if (session.placement == static_cast<std::uint32_t>(control::Placement::kGranted)) {
      query.session = session.id;
      add(query);
    } else if (session.nic < nics) {
      hosted_on.insert(session.nic);
    }
  }
  for (const std::uint32_t nic : hosted_on) {
    report::Query query = query_for(What::kVis);
    query.nic = nic;
    add(query);
  }
  return out;
}

void AgentClient::set_log_level(report::LogLevel level) const {
  report::Query query = query_for(What::kLogLevel);
  query.from = static_cast<std::uint64_t>(level);
  ask<report::Nic>(query);
}

std::vector<report::Event> AgentClient::events(std::uint64_t& from, std::uint64_t traced) const {
  report::Query query = query_for(traced == 0 ? What::kEvents : What::kTrace);
  query.session = traced;
  query.from = from;
  std::vector<report::Event> out;
  from = ask_page(query, out);
  for (report::Event& event : out) event.text[sizeof event.text - 1] = '\0';
  return out;
}

void AgentClient::set_draining(bool draining) const {
  report::Query query = query_for(What::kDrain);
  query.from = draining;
  std::vector<report::Nic> none;
  ask_page(query, none);
}

std::vector<LocalPair> AgentClient::local_pairs(std::uint64_t& from) const {
  report::Query query = query_for(What::kLocalPairs);
  query.from = from;
  std::vector<report::LocalPair> pairs;
  std::vector<Descriptor> files;
  from = ask_page(query, pairs, &files);
  if (files.size() != pairs.size()) fail("the agent's answer lacks files");
  std::vector<LocalPair> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) out.push_back({pairs[i], std::move(files[i])});
  return out;
}

std::string AgentClient::counters() const { return fetch_counters(socket_name_); }

}  // namespace viaduct::tool
