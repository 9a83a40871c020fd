// Messages both ways, one way, or as requests and responses, on any level.
#ifndef VIADUCT_TESTS_SIM_WORLD_STREAM_JOB_H
#define VIADUCT_TESTS_SIM_WORLD_STREAM_JOB_H

#include <vector>

#include "tests/sim/world/world.h"

namespace viaduct::sim {

struct StreamOptions {
  std::uint32_t job = 0;
  std::uint16_t level = vip::kReliableDelivery;
  unsigned quota[2] = {50, 50};  // messages that each side must have got
  bool answers = false;          // side 1 sends only in answer
  bool numbered = true;          // with immediate data; always on the unreliable level
  unsigned window = 16;          // receives posted
  std::uint32_t largest = 2000;  // bytes
  bool all_largest = false;      // no message is shorter
  double churn = 0;              // of the messages after which a side hangs up
  std::uint64_t pause = 0;       // ns between bursts, on average
};

class StreamJob final : public Job, public LinkUser {
 public:
  StreamJob(Simulation& world, Process& asking, Process& answering, const StreamOptions& options);

  bool step(Process& process) override;
  bool finished() const override;
  std::string text() const override;

 private:
  struct Side {
    std::vector<Buffer*> free_out, free_in;
    Buffer* narrow = nullptr;     // a region that ends before its buffer
    std::uint64_t posted = 0;     // messages, on this connection
    std::uint64_t got = 0;        // the same; unreliable: one more than the last one's number
    std::uint64_t offered = 0;    // receives, the same
    std::uint64_t delivered = 0;  // messages, on all connections
    std::uint64_t not_before = 0;
    unsigned burst = 0;
    bool equipped = false;
  };

  void born(unsigned side) override;
  void prepare(unsigned side) override;
  void up(unsigned side) override;
  void down(unsigned side) override;
  void back(unsigned side, bool receive, const Done& done) override;
  void take(unsigned side, const Done& done);
  bool send(unsigned side);
  bool may_send(unsigned side);
  void commit_crime(unsigned side);
  void offer(unsigned side, Buffer& buffer);
  std::uint32_t size_of(std::uint64_t stream, std::uint64_t number) const;

  Simulation& world_;
  const StreamOptions options_;
  Side sides_[2];
  unsigned churns_ = 20, crimes_ = 8;  // so that it comes to an end
};

}  // namespace viaduct::sim

#endif
