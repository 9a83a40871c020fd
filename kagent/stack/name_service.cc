#include "kagent/stack/name_service.h"

#include <algorithm>
#include <cstring>

#include "kagent/stack/backoff.h"

namespace viaduct {

using layout::CommandBody;
using layout::Op;

namespace {

// A second in all. A link that loses a fifth of all frames loses eight queries or their answers once in 3,500 times.
constexpr std::uint64_t kQueryRepeat[] = {20 * kMs,  40 * kMs,  80 * kMs,  120 * kMs,
                                          160 * kMs, 180 * kMs, 200 * kMs, 200 * kMs};
constexpr std::uint32_t kQueries = sizeof kQueryRepeat / sizeof kQueryRepeat[0];
constexpr std::uint64_t kDiscoveryTime = 100 * kMs;

CommandBody answer(Op op, const MacAddress& address) {
  CommandBody body{};
  body.op = op;
  std::memcpy(body.remote.host, address.data(), address.size());
  return body;
}

}  // namespace

template <class Platform>
void NameService<Platform>::host_by_name(std::uint32_t session, std::uint32_t command,
                                         const CommandBody& body) {
  const std::size_t length = strnlen(body.name, sizeof body.name);
  if (length == 0 || length > wire::kMaxNameBytes) {
    return command_slots_.finish(session, command, vip::kInvalidParameter);
  }
  // A name has one address here: there is only entry 0.
  if (body.entries != 0) return command_slots_.finish(session, command, vip::kErrorNameService);
  if (const auto address = environment_.look_up(body.name)) {
    return command_slots_.finish(session, command, vip::kSuccess, answer(body.op, *address));
  }
  state::Pending& asking = command_slots_.pending(session, command);
  asking.op = Op::kHostByName;
  asking.answerer = {};
  asking.attempts = 0;
  std::memcpy(asking.name, body.name, sizeof asking.name);
  ask_names(session, command);
}

template <class Platform>
void NameService<Platform>::host_by_address(std::uint32_t session, std::uint32_t command,
                                            const CommandBody& body) {
  state::Pending& asking = command_slots_.pending(session, command);
  asking.op = Op::kHostByAddress;
  asking.answerer = {};
  asking.attempts = 0;
  asking.local = body.remote;
  asking.name[0] = '\0';
  if (std::memcmp(body.remote.host, address_.data(), address_.size()) == 0) {
    CommandBody out = answer(Op::kHostByAddress, address_);
    const std::string_view name = environment_.own_name();
    std::memcpy(out.name, name.data(), std::min(name.size(), wire::kMaxNameBytes));
    return command_slots_.finish(session, command, vip::kSuccess, out);
  }
  ask_names(session, command);
}

// Asks all hosts and gives them a moment to answer.
template <class Platform>
void NameService<Platform>::discover(std::uint32_t session, std::uint32_t command,
                                     const CommandBody&) {
  state::Pending& asking = command_slots_.pending(session, command);
  asking.op = Op::kDiscover;
  asking.answerer = {};
  asking.attempts = 0;
  asking.name[0] = '\0';
  sessions_[session].discovered_count = 0;
  ask_names(session, command);
}

template <class Platform>
vip::Return NameService<Platform>::discovered(std::uint32_t session, CommandBody& body) const {
  const state::Session& found = sessions_[session];
  if (body.entries >= found.discovered_count) return vip::kInvalidParameter;
  std::memcpy(body.remote.host, found.discovered[body.entries].data(), layout::kHostBytes);
  return vip::kSuccess;
}

// Sends the query of a command, again and again until its tries are used up.
template <class Platform>
void NameService<Platform>::ask_names(std::uint32_t session, std::uint32_t command) {
  state::Pending& asking = command_slots_.pending(session, command);
  const bool discovery = asking.op == Op::kDiscover;
  const bool alone = !port_.reaches(kBroadcast);
  if (discovery && (alone || asking.attempts == 2)) {
    CommandBody out{};
    out.op = Op::kDiscover;
    out.handle = sessions_[session].discovered_count;
    return command_slots_.finish(session, command, vip::kSuccess, out);
  }
  if (alone || asking.attempts == kQueries) {
    return command_slots_.finish(session, command, vip::kErrorNameService);
  }
  const std::uint64_t again = discovery ? kDiscoveryTime / 2 : kQueryRepeat[asking.attempts];
  ++asking.attempts;
  wheel_.arm(command_timer(session, command), now_ + again);
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::NameBody body{};
  body.request = session * layout::kCommands + command;
  body.name_length = static_cast<std::uint8_t>(strnlen(asking.name, sizeof asking.name - 1));
  std::memcpy(body.name.data(), asking.name, body.name_length);
  MacAddress to = kBroadcast;
  if (asking.op == Op::kHostByAddress) std::memcpy(to.data(), asking.local.host, to.size());
  wire::Header header{};
  header.type = wire::Type::kNameQuery;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  ++root_->counters.name_queries_sent;
  frames_out_.submit_frame(frame, wire::encode(header, to, address_, ether_type_, frame.data));
}

// A query without a name is for all hosts, and answered with our name.
template <class Platform>
void NameService<Platform>::on_name_query(const wire::Decoded& query) {
  wire::NameBody body;
  if (!wire::decode(query.payload, body)) {
    ++root_->counters.drop_bad_body;
    return;
  }
  if (body.name_length == 0) {
    const std::string_view name = environment_.own_name();
    body.name_length = static_cast<std::uint8_t>(std::min(name.size(), wire::kMaxNameBytes));
    std::memcpy(body.name.data(), name.data(), body.name_length);
  } else if (!environment_.is_own_name({body.name.data(), body.name_length})) {
    return;
  }
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::Header header{};
  header.type = wire::Type::kNameReply;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  frames_out_.submit_frame(frame,
                           wire::encode(header, query.source, address_, ether_type_, frame.data));
}

// The query has been answered already. A second answer from the same host means that it was asked twice; one from
// another host is a conflict.
template <class Platform>
void NameService<Platform>::note_second_answer(const state::Pending& answered,
                                               const MacAddress& source) {
  if (answered.answerer == source) {
    ++root_->counters.drop_stale_answer;
    return;
  }
  ++root_->counters.name_conflicts;
  std::memcpy(name_conflict_.name, answered.name, sizeof answered.name);
  name_conflict_.first = answered.answerer;
  name_conflict_.second = source;
}

template <class Platform>
void NameService<Platform>::on_name_reply(const wire::Decoded& reply) {
  wire::NameBody body;
  if (!wire::decode(reply.payload, body)) {
    ++root_->counters.drop_bad_body;
    return;
  }
  StackCounters& count = root_->counters;
  if (body.request >= limits_.sessions * layout::kCommands) {
    ++count.drop_stale_answer;
    return;
  }
  const std::uint32_t session = body.request / layout::kCommands;
  const std::uint32_t command = body.request % layout::kCommands;
  state::Pending& asking = command_slots_.pending(session, command);
  const bool same_name = strnlen(asking.name, sizeof asking.name) == body.name_length &&
                         std::memcmp(asking.name, body.name.data(), body.name_length) == 0;
  if (asking.op == Op::kNone && asking.answerer != MacAddress{} && same_name) {
    return note_second_answer(asking, reply.source);
  }
  if (asking.op == Op::kHostByName && same_name) {
    asking.answerer = reply.source;
    return command_slots_.finish(session, command, vip::kSuccess,
                                 answer(Op::kHostByName, reply.source));
  }
  if (asking.op == Op::kHostByAddress &&
      std::memcmp(asking.local.host, reply.source.data(), reply.source.size()) == 0) {
    CommandBody out = answer(Op::kHostByAddress, reply.source);
    std::memcpy(out.name, body.name.data(), body.name_length);
    return command_slots_.finish(session, command, vip::kSuccess, out);
  }
  if (asking.op == Op::kDiscover) {
    state::Session& found = sessions_[session];
    for (std::uint32_t i = 0; i < found.discovered_count; ++i) {
      if (found.discovered[i] == reply.source) return;
    }
    if (found.discovered_count < layout::kMaxDiscovered) {
      found.discovered[found.discovered_count++] = reply.source;
    }
    return;
  }
  ++count.drop_stale_answer;
}

}  // namespace viaduct
