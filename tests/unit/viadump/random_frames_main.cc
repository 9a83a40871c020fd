// Writes a capture of random frames, of each type in turn.
//
//   random_frames valid|damaged COUNT SEED FILE
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kagent/tools/viadump/pcapng_writer.h"
#include "tests/unit/viadump/random_frames.h"

int main(int argc, char** argv) {
  using namespace viaduct;
  if (argc != 5) {
    std::fprintf(stderr, "usage: random_frames valid|damaged COUNT SEED FILE\n");
    return 2;
  }
  const bool damaged = std::strcmp(argv[1], "damaged") == 0;
  std::FILE* const file = std::fopen(argv[4], "wb");
  if (file == nullptr) {
    std::perror(argv[4]);
    return 1;
  }
  dump::PcapngWriter writer(file, "random_frames");
  writer.add_interface({"random", "", 0});
  SimRandom random(std::strtoull(argv[3], nullptr, 0));
  for (std::uint64_t i = 0; i < std::strtoull(argv[2], nullptr, 0); ++i) {
    const auto type = static_cast<wire::Type>(1 + i % wire::kLastType);
    dump::Packet packet;
    packet.time_ns = 1'000'000'000 + i;
    packet.bytes = damaged ? dump::damaged_frame(random, type) : dump::random_frame(random, type);
    packet.length = static_cast<std::uint32_t>(packet.bytes.size());
    writer.write(packet);
  }
  writer.flush();
  return std::fclose(file) == 0 ? 0 : 1;
}
