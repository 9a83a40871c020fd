// Writes the seed corpus of fuzz_control, a file for each list of steps, into a folder that exists.
//
//   make_control_corpus FOLDER
#include <cstdio>
#include <string>
#include <vector>

#include "kagent/contract/control.h"

using namespace viaduct;  // NOLINT: one translation unit

namespace {

using Steps = std::vector<std::uint8_t>;

// Steps of fuzz_control, of one program.
constexpr std::uint8_t kConnect = 0, kSayRaw = 1, kSayWithDescriptors = 2, kSayHello = 3,
                       kClose = 5, kTick = 6, kScribble = 7, kCommand = 9, kRing = 11,
                       kAwayAndBack = 12, kMore = 13, kOther = 14, kRun = 15;
// A step of the second program, which then means what the first one has.
constexpr std::uint8_t kSecond = 16;
constexpr std::uint8_t kAttach = 224;  // with kOther
// With kMore.
constexpr std::uint8_t kKept = 1, kAdopt = 5, kNextAgent = 6;

Steps operator+(Steps a, const Steps& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Steps session() { return {kConnect, kSayHello, 0}; }

Steps command(layout::Op op, std::size_t at = 0, Steps bytes = {}) {
  const Steps head = {kCommand,
                      0,
                      static_cast<std::uint8_t>(op),
                      static_cast<std::uint8_t>(at),
                      static_cast<std::uint8_t>(at >> 8),
                      static_cast<std::uint8_t>(bytes.size())};
  return head + bytes + Steps{kRun};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  using layout::Op;
  std::vector<Steps> corpus = {
      session() + Steps{kRun, kClose, kRun},
      session() + session() + Steps{kSayHello, 0, kRun},
      {kConnect, kSayHello, 2, 4, 9, 16, 'x', kRun},
      {kConnect, kSayHello, 130, 1, 2, 3, 4, 40, kRun},
      {kConnect, kSayRaw, 1, 'G', 'E', 'T', ' ', kRun},
      {kConnect, kSayWithDescriptors, 2, 'h', 'i', kRun, kTick},
      {kConnect, kRun, kTick, kRun},
      session() + Steps{kAwayAndBack, 0, kRun} + session(),
      session() + Steps{kScribble, 3, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, kRing, 3, 1, kRun},
  };
  Steps all = session();
  for (std::uint32_t op = 0; op <= static_cast<std::uint32_t>(Op::kLast) + 1; ++op) {
    corpus.push_back(session() + command(static_cast<Op>(op)));
    all = all + command(static_cast<Op>(op));
  }
  corpus.push_back(all);
  corpus.push_back(session() + command(Op::kCreatePtag) +
                   command(Op::kRegisterMemory, offsetof(layout::CommandBody, memory),
                           {0, 16, 0, 0, 0, 0, 0, 0, 0, 1}) +
                   command(Op::kCreateCq, offsetof(layout::CommandBody, entries), {16}) +
                   command(Op::kCreateVi, offsetof(layout::CommandBody, vi_attributes), {2}) +
                   command(Op::kConnectWait, offsetof(layout::CommandBody, timeout_ms), {200}) +
                   Steps{kRing, 128, 0, kRun, kClose});
  corpus.push_back(session() + Steps{kSecond | kOther, kAttach, 1} + command(Op::kCreatePtag) +
                   Steps{kClose, kRun, kSecond | kClose, kRun});
  corpus.push_back(session() + Steps{kSecond | kOther, kAttach, 1, kSecond | kOther, kAttach, 129,
                   kSecond | kClose, kRun});
  corpus.push_back(Steps{kConnect, kSayHello, 64, kRun, kSecond | kOther, kAttach, 0, kRun, kClose,
                   kRun});
  const Steps granted = {kConnect, kSayHello, 64, kRun};
  const Steps next = {kMore, kKept, kMore, kNextAgent};
  corpus.push_back(granted + next + Steps{kMore, kAdopt, 0, kRun, kClose, kRun});
  corpus.push_back(granted + next + Steps{kMore, kAdopt, 0} + next + Steps{kMore, kKept, kMore,
                   kAdopt, 0, kRun, kClose});
  corpus.push_back(granted + next + Steps{kMore, kAdopt, 4, 3, 0, 0, 0, kMore, kAdopt, 8, kMore,
                   kAdopt, 2, kMore, kAdopt, 16, kMore, kAdopt, 32, kMore, kAdopt, 64, 76, 9, kRun});
  corpus.push_back(granted + next + Steps{kTick, kRun, kMore, kAdopt, 0, kRun});
  int number = 0;
  for (const Steps& steps : corpus) {
    const std::string path = std::string(argv[1]) + "/control-" + std::to_string(++number);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const bool written =
        file != nullptr && std::fputc(0, file) != EOF &&
        std::fwrite(steps.data(), 1, steps.size(), file) == steps.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
      std::perror(path.c_str());
      return 1;
    }
  }
  return 0;
}
