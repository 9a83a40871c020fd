// SOVIA's lanes over VIs: two streams of bytes, which leave the lane now and then and come back, are half closed one
// after the other, and then once more over another connection.
#ifndef VIADUCT_TESTS_SIM_WORLD_LANE_JOB_H
#define VIADUCT_TESTS_SIM_WORLD_LANE_JOB_H

#include <map>
#include <memory>
#include <vector>

#include "sovia/lane/lane.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {

// The transport below a lane: descriptors on a link's VI.
class LaneTransport final : public sovia::Transport {
 public:
  LaneTransport(Link& link, const sovia::LaneOptions& options);

  bool equip();          // false: too few regions
  void post_receives();  // on a VI that is not connected

  std::byte* data_chunk(std::uint32_t place) override { return data_[place]->data; }
  std::byte* control_bytes(std::uint32_t place) override { return control_[place]->data; }
  std::byte* received(std::uint32_t place) override { return receive_[place]->data; }
  bool post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes,
                   std::uint32_t memory, std::uint32_t immediate) override;
  bool post_receive(std::uint32_t place) override;
  bool use_receives(std::uint32_t) override { return true; }  // post_receives() has posted all
  // The simulated VI ends the connection itself, and forwards no packet to memory of the program.
  void failed() override {}
  bool redirect(std::byte*, std::uint32_t, std::uint32_t) override { return false; }
  bool unredirect() override { return false; }
  void hold(bool) override {}
  void set_patient(bool patient) override;
  std::uint32_t completed() override;

  void sent() { ++completed_; }

  Buffer* direct = nullptr;  // the program's memory that is sent without a copy

 private:
  bool send(Buffer& buffer, std::uint32_t bytes, std::uint32_t immediate);
  void post(std::uint32_t place);

  Link& link_;
  const sovia::LanePlaces places_;
  std::vector<Buffer*> data_, control_, receive_;
  std::uint32_t completed_ = 0;
};

struct LaneJobOptions {
  std::uint32_t job = 0;
  std::uint16_t level = vip::kReliableDelivery;
  sovia::LaneOptions lanes[2];
  std::uint64_t bytes[2] = {};  // that each side writes on each connection, at most
  unsigned rounds = 2;          // that must come to their end in order
  std::uint64_t pause = 0;
};

class LaneJob final : public Job, public LinkUser {
 public:
  LaneJob(Simulation& world, Process& a, Process& b, const LaneJobOptions& options);

  bool step(Process& process) override;
  bool finished() const override { return ended_ >= 2 * options_.rounds; }
  std::string text() const override;

 private:
  struct Side {
    std::unique_ptr<LaneTransport> transport;
    std::unique_ptr<sovia::Lane> lane;
    std::uint64_t stream_out = 0, stream_in = 0;
    std::uint64_t quota = 0;  // to be written on this connection
    std::uint64_t written = 0, read = 0;
    std::uint64_t not_before = 0, flush_at = 0;
    bool over = false, lent = false;
    std::uint64_t ticket = 0;  // of the direct send, if lent
  };

  void born(unsigned side) override;
  void prepare(unsigned side) override;
  void up(unsigned side) override;
  void down(unsigned side) override;
  void back(unsigned side, bool receive, const Done& done) override;
  bool work(unsigned side);
  bool write(unsigned side);
  bool read(unsigned side);
  void follow(unsigned side);
  void settle(unsigned side);
  void end(unsigned side);

  Simulation& world_;
  const LaneJobOptions options_;
  Side sides_[2];
  std::vector<std::byte> scratch_;
  unsigned ended_ = 0;  // lanes that have come to their end in order, of both sides
  std::map<std::uint64_t, std::uint64_t> written_;  // bytes of each stream
};

}  // namespace viaduct::sim

#endif
