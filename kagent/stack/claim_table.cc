#include "kagent/stack/claim_table.h"

#include <cstring>

#include "kagent/stack/backoff.h"

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::kNone;

namespace {

constexpr std::uint64_t kClaimRepeat[] = {20 * kMs, 80 * kMs, 200 * kMs, 700 * kMs};

// How many questions of other hosts are answered in a millisecond: each costs a system call. A host repeats a
// question that was dropped.
constexpr std::uint32_t kClaimAnswersPerMs = 16;
constexpr std::uint32_t kClaimQueries = sizeof kClaimRepeat / sizeof kClaimRepeat[0];

// A token begins with the claim's place in the table; the rest of it can't be guessed.
std::uint32_t place_in(const ClaimToken& token) {
  std::uint32_t place;
  std::memcpy(&place, token.data(), sizeof place);
  return place;
}

// Takes the same time wherever the tokens differ, so that timing does not help to guess one.
bool same(const ClaimToken& a, const ClaimToken& b) {
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

}  // namespace

template <class Platform>
vip::Return ClaimTable<Platform>::claim(std::uint32_t session, CommandBody& body) {
  if (!body.flow.valid()) return vip::kInvalidParameter;
  if (sessions_[session].claims >= limits_.claims) return vip::kErrorResource;
  budget_.charge(Budget::kSystemCall);
  switch (environment_.owns(session, body.flow)) {
    case Owns::kYes: break;
    case Owns::kNo: return vip::kErrorNameService;
    case Owns::kUnknown: return vip::kNotSupported;
  }
  const std::uint32_t i = claims_.take();
  if (i == kNone) return vip::kErrorResource;
  state::Claim& claim = claims_[i];
  claim.session = session;
  claim.flow = body.flow;
  const std::uint64_t random[] = {environment_.random(), environment_.random()};
  std::memcpy(claim.token.data(), random, claim.token.size());
  std::memcpy(claim.token.data(), &i, sizeof i);
  ++sessions_[session].claims;
  body.token = claim.token;
  return vip::kSuccess;
}

template <class Platform>
state::Claim* ClaimTable<Platform>::find_claim(const ClaimToken& token) {
  const std::uint32_t i = place_in(token);
  if (i >= claims_.fresh()) return nullptr;
  state::Claim& claim = claims_[i];
  return claim.session != kNone && same(claim.token, token) ? &claim : nullptr;
}

template <class Platform>
vip::Return ClaimTable<Platform>::unclaim(std::uint32_t session, const CommandBody& body) {
  state::Claim* const claim = find_claim(body.token);
  if (claim == nullptr || claim->session != session) return vip::kInvalidParameter;
  free_claim(*claim);
  return vip::kSuccess;
}

template <class Platform>
void ClaimTable<Platform>::free_claim(state::Claim& claim) {
  --sessions_[claim.session].claims;
  claim.session = kNone;
  claim.token = {};
  claims_.give(claims_.index(claim));
}

// Asks the system once more: the connection may have ended since it was claimed, and another one may have its
// addresses.
template <class Platform>
bool ClaimTable<Platform>::vouches(const Flow& flow, const ClaimToken& token) {
  const state::Claim* const claim = find_claim(token);
  return claim != nullptr && claim->flow == flow &&
         environment_.owns(claim->session, flow) == Owns::kYes;
}

template <class Platform>
void ClaimTable<Platform>::verify(std::uint32_t session, std::uint32_t command,
                                  const CommandBody& body) {
  if (!body.flow.valid()) return command_slots_.finish(session, command, vip::kInvalidParameter);
  const Flow theirs = body.flow.reversed();
  MacAddress host;
  std::memcpy(host.data(), body.remote.host, host.size());
  if (host == address_) {
    budget_.charge(Budget::kSystemCall);
    const bool good = vouches(theirs, body.token);
    return command_slots_.finish(session, command, good ? vip::kSuccess : vip::kErrorNameService);
  }
  if (!peer_table_.reachable(host)) {
    return command_slots_.finish(session, command, vip::kNotReachable);
  }
  state::Pending& asking = command_slots_.pending(session, command);
  asking.op = Op::kVerify;
  asking.attempts = 0;
  asking.local = body.remote;
  asking.flow = theirs;
  asking.token = body.token;
  ask_about_claim(session, command);
}

// Sends the query of a command, again and again until its tries are used up.
template <class Platform>
void ClaimTable<Platform>::ask_about_claim(std::uint32_t session, std::uint32_t command) {
  state::Pending& asking = command_slots_.pending(session, command);
  if (asking.attempts == kClaimQueries) {
    return command_slots_.finish(session, command, vip::kTimeout);
  }
  wheel_.arm(command_timer(session, command), now_ + kClaimRepeat[asking.attempts]);
  ++asking.attempts;
  MacAddress to;
  std::memcpy(to.data(), asking.local.host, to.size());
  const std::uint32_t request = session * layout::kCommands + command;
  ++root_->counters.claim_queries_sent;
  send_claim(wire::Type::kClaimQuery, to,
             {request, wire::ClaimAnswer::kNone, asking.flow, asking.token});
}

template <class Platform>
void ClaimTable<Platform>::send_claim(wire::Type type, const MacAddress& to,
                                      const wire::ClaimBody& body) {
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::Header header{};
  header.type = type;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  frames_out_.submit_frame(frame, wire::encode(header, to, address_, ether_type_, frame.data));
}

template <class Platform>
void ClaimTable<Platform>::on_claim_query(const wire::Decoded& query) {
  StackCounters& count = root_->counters;
  wire::ClaimBody body;
  if (!wire::decode(query.payload, body)) {
    ++count.drop_bad_body;
    return;
  }
  // A program's own stack knows of no claims: the other host has to ask the agent.
  if (limits_.claims == 0) {
    ++count.drop_not_supported;
    return;
  }
  const std::uint64_t epoch = now_ / kMs;
  if (epoch != claim_epoch_) {
    claim_epoch_ = epoch;
    claims_in_epoch_ = 0;
  }
  if (find_claim(body.token) != nullptr && ++claims_in_epoch_ > kClaimAnswersPerMs) {
    ++count.drop_claim_rate;
    return;
  }
  const bool good = vouches(body.flow, body.token);
  ++(good ? count.claims_confirmed : count.claims_denied);
  body.answer = good ? wire::ClaimAnswer::kGood : wire::ClaimAnswer::kBad;
  send_claim(wire::Type::kClaimReply, query.source, body);
}

// A reply repeats the whole query, so that only the host that was asked can answer.
template <class Platform>
void ClaimTable<Platform>::on_claim_reply(const wire::Decoded& reply) {
  wire::ClaimBody body;
  if (!wire::decode(reply.payload, body) || body.answer == wire::ClaimAnswer::kNone) {
    ++root_->counters.drop_bad_body;
    return;
  }
  const std::uint32_t session = body.request / layout::kCommands;
  const std::uint32_t command = body.request % layout::kCommands;
  if (session < limits_.sessions && sessions_[session].in_use) {
    const state::Pending& asking = command_slots_.pending(session, command);
    if (asking.op == Op::kVerify && asking.flow == body.flow && same(asking.token, body.token) &&
        std::memcmp(asking.local.host, reply.source.data(), reply.source.size()) == 0) {
      const bool good = body.answer == wire::ClaimAnswer::kGood;
      return command_slots_.finish(session, command, good ? vip::kSuccess : vip::kErrorNameService);
    }
  }
  ++root_->counters.drop_stale_answer;
}

}  // namespace viaduct
