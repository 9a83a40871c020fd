// RDMA writes whose target polls a flag behind the data, and RDMA reads of what is known.
//
//   side 0                                  side 1
//   writes block n, flag last   --------->  polls the flag, checks the block, clears it
//   polls its own word          <---------  writes n back
//   reads a region that does not change (reliable levels)
#ifndef VIADUCT_TESTS_SIM_WORLD_RDMA_JOB_H
#define VIADUCT_TESTS_SIM_WORLD_RDMA_JOB_H

#include <vector>

#include "tests/sim/world/world.h"

namespace viaduct::sim {

struct RdmaOptions {
  std::uint32_t job = 0;
  std::uint16_t level = vip::kReliableDelivery;
  unsigned blocks = 30;
  std::uint32_t largest = 4000;  // bytes of a block, without the flag
  std::uint64_t pause = 0;
};

class RdmaJob final : public Job, public LinkUser {
 public:
  RdmaJob(Simulation& world, Process& writer, Process& target, const RdmaOptions& options);

  bool step(Process& process) override;
  bool finished() const override { return blocks_ >= options_.blocks; }
  std::string text() const override;
  void peek(Process& process) override;

 private:
  struct Side {
    bool equipped = false;
    Buffer* target = nullptr;    // side 1: the block; side 0: the word that comes back
    Buffer* constant = nullptr;  // side 1: the source of reads
    std::vector<Buffer*> free;   // to write from, and to read to
    Buffer* receive = nullptr;   // for immediate data
    bool receive_posted = false;
    std::uint64_t posted = 0;      // writes of blocks, or of answers
    std::uint64_t seen = 0;        // answers, or blocks
    std::uint64_t immediates = 0;  // blocks that came with immediate data, announced
    std::uint64_t not_before = 0;
    std::uint64_t again_at = 0;  // unreliable: when it is written once more
  };

  void born(unsigned side) override;
  void prepare(unsigned side) override;
  void up(unsigned side) override;
  void down(unsigned) override {}
  void back(unsigned side, bool receive, const Done& done) override;
  bool write_block();
  bool read_back();
  bool look_for_block();
  bool look_for_answer();
  bool commit_crime();
  std::uint32_t size_of(std::uint64_t stream, std::uint64_t number) const;
  // The flag lies behind the block, and is never 0.
  std::uint64_t flag_of(std::uint64_t stream, std::uint64_t number) const;
  void write(unsigned side, Buffer& from, std::uint32_t bytes, const Buffer& to, std::uint64_t tag,
             std::uint32_t offset = 0);

  Simulation& world_;
  const RdmaOptions options_;
  Side sides_[2];
  unsigned blocks_ = 0;          // seen and right, on all connections
  unsigned crimes_ = 4, reads_;  // that may still come
};

}  // namespace viaduct::sim

#endif
