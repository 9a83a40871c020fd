// One end of a connection that is made, lost and made again, as a program with any sense does it.
//
//   kAbsent   the program is dead
//   kIdle     nothing under way; a VI may be there
//   kAsking   ConnectRequest, ConnectWait, ConnectAccept, or PeerWait
//   kUp       connected; the job's time
//   kFalling  the connection is over; everything posted must come back, then Disconnect
#ifndef VIADUCT_TESTS_SIM_WORLD_LINK_H
#define VIADUCT_TESTS_SIM_WORLD_LINK_H

#include <cstdint>

#include "tests/sim/world/client.h"
#include "tests/sim/world/connection.h"

namespace viaduct::sim {

class Process;
class Simulation;

// The user of a link.
class LinkUser {
 public:
  virtual void born(unsigned side) = 0;  // the program has begun: memory is to be made
  virtual void prepare(
      unsigned side) = 0;  // a VI is there and unconnected: receives are to be posted
  virtual void up(unsigned side) = 0;
  virtual void down(unsigned side) = 0;  // all descriptors have come back, or the program has died
  // A descriptor has come back.
  virtual void back(unsigned side, bool receive, const Done& done) = 0;

 protected:
  ~LinkUser() = default;
};

class Link {
 public:
  enum class Kind { kCaller, kAnswerer, kPeer };
  enum class State { kAbsent, kIdle, kAsking, kUp, kFalling };
  struct Options {
    std::uint32_t job;
    std::uint16_t level;
    std::uint32_t max_transfer = 65536;
    bool rdma = false;
    Kind kind;
  };

  Link(Simulation& world, Process& process, LinkUser& user, unsigned side, const Options& options);

  void set_peer(Link& peer) { peer_ = &peer; }
  Link& peer() { return *peer_; }

  void born();
  void died();
  // True if something happened.
  bool step();
  // Says whether it is to be connected; a connection that stands is ended if not.
  void want(bool wanted);
  void hang_up();

  // After each step of the world: takes in the completions of the VI's descriptors.
  void account();

  bool is_up() const { return state_ == State::kUp; }
  bool is_at_rest() const {
    return state_ == State::kAbsent || (state_ == State::kIdle && vi == nullptr);
  }
  State state() const { return state_; }
  unsigned side() const { return side_; }
  Process& process() { return process_; }
  Client& client();
  std::uint64_t rounds() const { return rounds_; }

  Vi* vi = nullptr;
  Connection* connection = nullptr;  // once the stack may know of it

 private:
  bool begin();
  void ask();
  void wait();
  void accept(const layout::CommandBody& request);
  void meet();
  void failed(std::uint32_t result);
  void attach(Connection& to);
  void detach();
  void stands();
  void disconnect();
  void note_end();
  void rest();
  void give_up_vi();
  bool harvest();
  layout::Address address(std::uint32_t number, bool with_number) const;

  Simulation& world_;
  Process& process_;
  LinkUser& user_;
  const unsigned side_;
  const Options options_;
  Link* peer_ = nullptr;
  State state_ = State::kAbsent;
  bool wanted_ = true;
  bool disconnecting_ = false, disconnected_ = false;
  std::uint64_t retry_at_ = 0, asked_at_ = 0;
  std::uint64_t sent_before_ = 0, received_before_ = 0;
  std::uint64_t rounds_ = 0;
};

}  // namespace viaduct::sim

#endif
