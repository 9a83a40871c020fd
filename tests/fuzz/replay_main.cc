// Runs a fuzz target without clang's fuzzer: over files, and over mutations of them.
//
//   fuzz_X [-n COUNT] [-s SEED] FILE|FOLDER...
//
// Every file is given to the target as it is, then COUNT mutations (none unless asked for) of files
// drawn with SEED (1 unless given). Ends 0 when all were survived; a target that finds a fault ends
// the process itself, and the input is left in ./crash-input.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

// Of the sanitizers' runtime, if that is linked.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t kLongestInput = 1 << 16;
const Input* g_current = nullptr;

// splitmix64
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::size_t below(std::size_t n) { return next() % n; }
};

// Called while the process dies, so it does without buffers and memory.
void save_current() {
  if (g_current == nullptr) return;
  const int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  const bool whole =
      write(file, g_current->data(), g_current->size()) == static_cast<ssize_t>(g_current->size());
  close(file);
  static constexpr char kNote[] = "the input is in ./crash-input\n";
  if (whole && write(STDERR_FILENO, kNote, sizeof kNote - 1) < 0) return;
}

void on_signal(int number) {
  save_current();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void save_input_on_death() {
  std::signal(SIGABRT, on_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(save_current);
    return;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_signal);
}

void run(const Input& input) {
  // An allocation of just this length, so that AddressSanitizer sees every read behind it.
  const auto copy = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), copy.get());
  g_current = &input;
  LLVMFuzzerTestOneInput(copy.get(), input.size());
  g_current = nullptr;
}

bool read_file(const std::filesystem::path& path, Input& out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  out.assign(std::istreambuf_iterator<char>(file), {});
  return !file.bad();
}

void mutate(Input& input, const std::vector<Input>& corpus, Random& random) {
  static constexpr std::uint8_t kTelling[] = {0x00, 0x01, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff};
  for (std::size_t steps = 1 + random.below(5); steps != 0; --steps) {
    if (input.empty()) input.push_back(static_cast<std::uint8_t>(random.next()));
    const std::size_t at = random.below(input.size());
    const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(7)) {
      case 0:
        *here = static_cast<std::uint8_t>(*here ^ 1u << random.below(8));
        break;
      case 1:
        *here = static_cast<std::uint8_t>(random.next());
        break;
      case 2:
        *here = kTelling[random.below(std::size(kTelling))];
        break;
      case 3:
        input.resize(at);
        break;
      case 4:
        input.insert(here, 1 + random.below(16), static_cast<std::uint8_t>(random.next()));
        break;
      case 5: {
        const std::size_t most = std::min<std::size_t>(16, input.size() - at);
        input.erase(here, here + static_cast<std::ptrdiff_t>(1 + random.below(most)));
        break;
      }
      default: {  // the rest of another file
        const Input& other = corpus[random.below(corpus.size())];
        if (at >= other.size()) break;
        input.resize(at);
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(at), other.end());
      }
    }
  }
  if (input.size() > kLongestInput) input.resize(kLongestInput);
}

}  // namespace

int main(int argc, char** argv) {
  unsigned long count = 0;
  Random random{1};
  for (int option; (option = getopt(argc, argv, "n:s:")) != -1;) {
    switch (option) {
      case 'n':
        count = std::strtoul(optarg, nullptr, 10);
        break;
      case 's':
        random.state = std::strtoull(optarg, nullptr, 10);
        break;
      default:
        return 2;
    }
  }
  if (optind == argc) {
    std::fprintf(stderr, "usage: %s [-n COUNT] [-s SEED] FILE|FOLDER...\n", argv[0]);
    return 2;
  }

  std::vector<std::filesystem::path> paths;
  for (int i = optind; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      paths.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());  // the same order everywhere, so that seeds repeat a run

  save_input_on_death();
  std::vector<Input> corpus;
  for (const auto& path : paths) {
    Input input;
    if (!read_file(path, input)) {
      std::fprintf(stderr, "%s: can't read it\n", path.c_str());
      return 1;
    }
    run(input);
    corpus.push_back(std::move(input));
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no input files there\n", argv[optind]);
    return 1;
  }
  for (unsigned long i = 0; i < count; ++i) {
    Input input = corpus[random.below(corpus.size())];
    mutate(input, corpus, random);
    run(input);
  }
  std::printf("%zu files and %lu mutations survived\n", corpus.size(), count);
  return 0;
}
