#include "tests/sim/world/link.h"

#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {

using layout::CommandBody;
using layout::Op;

Link::Link(Simulation& world, Process& process, LinkUser& user, unsigned side,
           const Options& options)
    : world_(world), process_(process), user_(user), side_(side), options_(options) {
  process.links.push_back(this);
}

Client& Link::client() { return *process_.client; }

void Link::born() {
  state_ = State::kIdle;
  vi = nullptr;
  disconnecting_ = disconnected_ = false;
  retry_at_ = world_.now() + world_.random.below(2 * kMsec);
  user_.born(side_);
}

void Link::died() {
  if (connection != nullptr) {
    account();
    connection->gone[side_] = true;
    note_end();
    connection = nullptr;
  }
  vi = nullptr;
  if (state_ != State::kAbsent) {
    state_ = State::kAbsent;
    user_.down(side_);
  }
}

void Link::want(bool wanted) {
  wanted_ = wanted;
  process_.restless = true;
}

void Link::attach(Connection& to) {
  connection = &to;
  sent_before_ = vi->succeeded(false) - to.sent[side_];
  received_before_ = vi->succeeded(true) - to.received[side_];
}

void Link::account() {
  if (connection == nullptr || vi == nullptr) return;
  connection->sent[side_] = vi->succeeded(false) - sent_before_;
  connection->received[side_] = vi->succeeded(true) - received_before_;
}

void Link::detach() {
  account();
  connection = nullptr;
}

layout::Address Link::address(std::uint32_t number, bool with_number) const {
  layout::Address out{};
  const MacAddress host = world_.address(process_.host);
  std::memcpy(out.host, host.data(), host.size());
  std::memcpy(out.discriminator, &options_.job, 4);
  out.discriminator[4] = static_cast<std::uint8_t>(side_);
  out.discriminator_length = 5;
  if (with_number) {
    std::memcpy(out.discriminator + 5, &number, 4);
    out.discriminator_length = 9;
  }
  return out;
}

// ---------------------------------------------------------------------------- connecting

bool Link::begin() {
  if (world_.now() < retry_at_) {
    process_.wake_at(retry_at_);
    return false;
  }
  if (vi == nullptr) vi = client().create_vi(options_.level, options_.max_transfer, options_.rdma);
  if (vi == nullptr) {  // the table is full
    tell("job %u side %u: no VI", options_.job, side_);
    retry_at_ = world_.now() + world_.random.between(1, 20) * kMsec;
    process_.wake_at(retry_at_);
    return false;
  }
  user_.prepare(side_);
  state_ = State::kAsking;
  asked_at_ = world_.now();
  switch (options_.kind) {
    case Kind::kCaller:
      ask();
      break;
    case Kind::kAnswerer:
      wait();
      break;
    case Kind::kPeer:
      meet();
      break;
  }
  return true;
}

void Link::failed(std::uint32_t result) {
  tell("job %u side %u: not connected, result %u", options_.job, side_, result);
  if (connection != nullptr) {
    note_end();  // also of the other side's, if that believes it stands
    detach();
  }
  state_ = State::kIdle;
  // Others may need it more, where there are few.
  if (world_.random.chance(0.3)) {
    give_up_vi();
    user_.down(side_);
  }
  retry_at_ = world_.now() + world_.random.magnitude(10 * kUs, 100 * kMsec);
  process_.wake_at(retry_at_);
}

void Link::ask() {
  attach(world_.new_connection(options_.level));
  CommandBody body{};
  body.op = Op::kConnectRequest;
  body.vi = vi->index;
  body.generation = vi->generation;
  body.timeout_ms = world_.is_calm() ? 5000 : world_.random.magnitude(20, 10'000);
  body.local = address(connection->number, true);
  body.remote = peer_->address(0, false);
  client().command(body, [this](const CommandBody& answer) {
    if (answer.result != vip::kSuccess) return failed(answer.result);
    if (answer.vi_attributes.reliability != options_.level) fail("connected with another level");
    stands();
  });
}

void Link::wait() {
  CommandBody body{};
  body.op = Op::kConnectWait;
  body.timeout_ms = world_.random.between(1, 2000);
  body.local = address(0, false);
  client().command(body, [this](const CommandBody& answer) {
    if (answer.result != vip::kSuccess) return failed(answer.result);
    if (world_.random.chance(0.03)) {
      CommandBody reject{};
      reject.op = Op::kConnectReject;
      reject.handle = answer.handle;
      return client().command(reject, [this](const CommandBody&) { failed(vip::kReject); });
    }
    accept(answer);
  });
}

void Link::accept(const CommandBody& request) {
  std::uint32_t number = 0;
  if (request.remote.discriminator_length != 9) fail("a request with another discriminator");
  std::memcpy(&number, request.remote.discriminator + 5, 4);
  Connection* const asked = world_.connection(number);
  if (asked == nullptr) fail("a request that nobody has made: %u", number);
  attach(*asked);
  CommandBody body{};
  body.op = Op::kConnectAccept;
  body.handle = request.handle;
  body.vi = vi->index;
  body.generation = vi->generation;
  client().command(body, [this](const CommandBody& answer) {
    if (answer.result != vip::kSuccess) return failed(answer.result);
    stands();
  });
}

void Link::meet() {
  attach(world_.new_connection(options_.level));
  connection->one_sided = true;
  CommandBody body{};
  body.op = Op::kPeerRequest;
  body.vi = vi->index;
  body.generation = vi->generation;
  body.timeout_ms = world_.random.magnitude(200, 10'000);
  body.local = address(0, false);
  body.remote = peer_->address(0, false);
  client().command(body, [this](const CommandBody& answer) {
    if (answer.result != vip::kSuccess) return failed(answer.result);
    CommandBody wait{};
    wait.op = Op::kPeerWait;
    wait.vi = vi->index;
    wait.generation = vi->generation;
    client().command(wait, [this](const CommandBody& met) {
      if (met.result != vip::kSuccess) return failed(met.result);
      stands();
    });
  });
}

void Link::stands() {
  if (connection->stood[side_]) fail("connection %u was made twice", connection->number);
  connection->stood[side_] = true;
  state_ = State::kUp;
  disconnected_ = false;
  ++rounds_;
  tell("job %u side %u: connection %u is up, VI %u of program %u", options_.job, side_,
       connection->number, vi->index, process_.number);
  user_.up(side_);
}

// ---------------------------------------------------------------------------- the end

bool Link::harvest() {
  bool any = false;
  for (const bool receive : {true, false}) {
    while (vi != nullptr) {
      const auto done = vi->done(receive);
      if (!done) break;
      any = true;
      user_.back(side_, receive, *done);
    }
  }
  return any;
}

void Link::note_end() {
  connection->ended = true;
  if (connection->one_sided && peer_->connection != nullptr) peer_->connection->ended = true;
}

void Link::hang_up() {
  if (state_ != State::kUp) return;
  note_end();
  state_ = State::kFalling;
  disconnect();
}

void Link::disconnect() {
  disconnecting_ = true;
  disconnected_ = false;
  CommandBody body{};
  body.op = Op::kDisconnect;
  body.vi = vi->index;
  body.generation = vi->generation;
  client().command(body, [this](const CommandBody& answer) {
    if (answer.result != vip::kSuccess) fail("a disconnect has failed: %u", answer.result);
    if (vi->state() != vip::kIdle) fail("not idle after a disconnect");
    if (vi->incomplete(false) != 0 || vi->incomplete(true) != 0) {
      fail("%zu sends and %zu receives were not given back by a disconnect", vi->incomplete(false),
           vi->incomplete(true));
    }
    disconnecting_ = false;
    disconnected_ = true;
  });
}

void Link::give_up_vi() {
  const auto dropped = client().destroy_vi(vi);
  vi = nullptr;
  for (const auto& [receive, done] : dropped) user_.back(side_, receive, done);
}

// Everything has come back.
void Link::rest() {
  tell("job %u side %u: connection %u is over", options_.job, side_, connection->number);
  detach();
  if (!wanted_ || world_.random.chance(0.5)) {
    give_up_vi();
  }
  state_ = State::kIdle;
  retry_at_ = world_.now() + world_.random.magnitude(kUs, 20 * kMsec);
  process_.wake_at(retry_at_);
  user_.down(side_);
}

bool Link::step() {
  switch (state_) {
    case State::kAbsent:
    case State::kAsking:
      return false;
    case State::kIdle:
      if (wanted_) return begin();
      if (vi == nullptr) return false;
      give_up_vi();
      user_.down(side_);
      return true;
    case State::kUp: {
      // Look at the state first: the harvest after that is complete.
      const bool error = vi->state() == vip::kError;
      const bool any = harvest();
      if (error) {
        const bool steady = process_.granted && peer_->process_.granted && world_.is_steady();
        // An acceptor waits for a second; an asker that is stopped for longer learns too late that it has a connection.
        const bool late = !connection->stood[1 - side_] && world_.now() - asked_at_ > kSec;
        if (!connection->spoilt && !connection->ended && !late && (world_.is_calm() || steady)) {
          fail("connection %u was lost for no reason", connection->number);
        }
        tell("job %u side %u: connection %u is broken", options_.job, side_, connection->number);
        note_end();
        state_ = State::kFalling;
        return true;
      }
      if (!wanted_) {
        hang_up();
        return true;
      }
      return any;
    }
    case State::kFalling: {
      const bool any = harvest();
      if (disconnecting_ || vi->posted(false) != 0 || vi->posted(true) != 0) return any;
      if (disconnected_) {
        rest();
      } else {
        disconnect();
      }
      return true;
    }
  }
  return false;
}

}  // namespace viaduct::sim
