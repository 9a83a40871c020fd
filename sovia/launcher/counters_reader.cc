#include "sovia/launcher/counters_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace viaduct::sovia::launcher {
namespace {

namespace fs = std::filesystem;

// A copy of the page: the file is another process's, which may cut it short at any time.
class Copy {
 public:
  explicit Copy(const fs::path& file) {
    // The file may have been replaced a moment ago: a fifo must not stop us.
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) throw std::runtime_error("cannot open the counters " + file.string() + ": " + std::strerror(errno));
    const ssize_t got = pread(fd, &page_, sizeof page_, 0);
    ::close(fd);
    if (got != static_cast<ssize_t>(sizeof page_)) {
      throw std::runtime_error("cannot read the counters " + file.string());
    }
  }

  const counters::Page& page() const { return page_; }

 private:
  counters::Page page_;
};

bool is_counters(const fs::path& link) {
  std::error_code error;
  const std::string target = fs::read_symlink(link, error);
  constexpr std::string_view kBegin = "/memfd:";
  return !error && target.starts_with(kBegin) &&
         std::string_view(target).substr(kBegin.size()).starts_with(counters::kName);
}

// A process chooses its name, and a terminal obeys some characters.
std::string program_of(int process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/comm");
  std::string name;
  std::getline(stream, name);
  std::replace_if(name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

ProcessCounters copy(const counters::Page& page, int process) {
  if (page.magic != counters::kMagic || page.fingerprint != counters::fingerprint()) {
    throw std::runtime_error("process " + std::to_string(process) +
                             " runs another version of SOVIA; use that version's `sovia stat`, or restart the process");
  }
  ProcessCounters copied;
  copied.process = process;
  copied.program = program_of(process);
  for (std::size_t i = 0; i < kCounters; ++i) copied.values[i] = page.values[i].load();
  for (std::size_t i = 0; i < kReasons; ++i) copied.falls[i] = page.falls[i].load();
  for (std::size_t fd = 0; fd < counters::kSocketRows; ++fd) {
    const std::uint16_t row = page.sockets[fd].load();
    if (row == 0 || (row & 0xff) >= kReasons) continue;
    copied.sockets.push_back(
        {static_cast<int>(fd), static_cast<counters::Way>(row >> 8), static_cast<Reason>(row & 0xff)});
  }
  return copied;
}

}  // namespace

std::optional<ProcessCounters> read_counters(int process) {
  const fs::path folder = "/proc/" + std::to_string(process) + "/fd";
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    throw std::runtime_error("cannot look at process " + std::to_string(process) + ": " + error.message());
  }
  for (const fs::directory_entry& entry : entries) {
    if (!is_counters(entry.path())) continue;
    const Copy copied(entry.path());
    // A child of a fork that has not used a socket yet may still have its parent's.
    if (copied.page().process == process) return copy(copied.page(), process);
  }
  return std::nullopt;
}

std::vector<ProcessCounters> read_those(const std::vector<int>& processes) {
  std::vector<ProcessCounters> all;
  for (const int process : processes) {
    auto read = read_counters(process);
    if (!read) {
      throw std::runtime_error("process " + std::to_string(process) +
                               " has no counters: it does not use SOVIA (start it with `sovia run`), or has had "
                               "no socket yet");
    }
    all.push_back(std::move(*read));
  }
  return all;
}

std::vector<ProcessCounters> read_all_counters() {
  std::vector<ProcessCounters> all;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    try {
      if (auto read = read_counters(std::stoi(name))) all.push_back(std::move(*read));
    } catch (const std::exception&) {
      // The process is another user's, or has ended meanwhile.
    }
  }
  std::sort(all.begin(), all.end(),
            [](const auto& one, const auto& other) { return one.process < other.process; });
  return all;
}

}  // namespace viaduct::sovia::launcher
