// Two hosts of the simulated network for fuzz targets: one pair of programs that behave, one that a
// target lets do anything.
//
//   host a: hostile, good ---- SimNetwork ---- host b: hostile_peer, good_peer
//
// Memory of programs is one arena for each host, at the same address in every run, so that an input can name
// addresses. Memory outside is as if it were not mapped; the good programs' part of it has a pattern that must be
// there at the end.
#ifndef VIADUCT_TESTS_FUZZ_FUZZ_HOSTS_H
#define VIADUCT_TESTS_FUZZ_FUZZ_HOSTS_H

#include <memory>
#include <span>
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "tests/sim/sim_host.h"

namespace viaduct::fuzz {

class ArenaHost final : public sim::Host {
 public:
  static constexpr std::size_t kBytes = 1 << 20;
  static constexpr std::size_t kGood = kBytes - (64 << 10);  // from here on it is the good program's

  ArenaHost(SimNetwork& network, std::uint8_t number);
  ~ArenaHost() override;

  bool read_program(std::uint32_t session, const Reader& reader, std::span<const iovec> remote,
                    std::span<const iovec> local) override;
  bool write_program(std::uint32_t session, std::span<const iovec> remote,
                     std::span<const iovec> local) override;
  // Of every session at most so much; at the end nothing may be left.
  bool charge(std::uint32_t session, Quota what, std::int64_t change) override;
  bool charged() const;
  // Not to be foreseen: a fuzzer would learn the keys of connections that are not its own.
  std::uint64_t random() override;

  std::byte* arena = nullptr;
  std::uint32_t good_session = ~0u;

 private:
  std::int64_t charges_[4][3] = {};
  bool inside(std::uint32_t session, std::span<const iovec> pieces) const;
};

class Hosts {
 public:
  explicit Hosts(std::uint64_t seed);

  // A message from each good program to the other, which must arrive as it was sent.
  void exchange();
  void run_for(std::uint64_t ns);
  // The same while frames are lost, doubled and overtaken.
  void run_badly(std::uint64_t ns);
  // Ends all programs: nothing may be left in either stack.
  void end();

  // Connects two new VIs of the hostile programs. Returns their numbers.
  std::pair<std::uint32_t, std::uint32_t> connect_hostile(std::uint16_t reliability);

  SimNetwork network;
  ArenaHost a, b;
  std::unique_ptr<sim::Program> hostile, hostile_peer, good, good_peer;

 private:
  void send(sim::Program& from, std::uint32_t from_vi, std::byte* out, std::uint32_t out_handle,
            sim::Program& to, std::uint32_t to_vi, std::byte* in, std::uint32_t in_handle);

  sim::Host* hosts_[2];
  std::uint32_t vi_ = 0, peer_vi_ = 0, handle_ = 0, peer_handle_ = 0;
  unsigned sent_ = 0;
};

}  // namespace viaduct::fuzz

#endif
