#include "kagent/tools/viadump/local_capture.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace viaduct::dump {
namespace {

using std::chrono::steady_clock;

// Pause between two looks at rings in which there was nothing. The time of a frame may be late by as much.
constexpr auto kPause = std::chrono::microseconds(200);
constexpr auto kAskEvery = std::chrono::milliseconds(20);  // the agent, for pairs
constexpr std::size_t kTurns = local::kRingBytes / local::kLine;  // frames of a ring, before others have their turn
constexpr std::uint64_t kOfPacket = sizeof(Packet) + 64;   // memory that a packet takes besides its bytes

std::uint64_t now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::uint32_t find_nic(const tool::AgentClient& agent, const std::string& interface) {
  const auto nics = agent.nics();
  for (std::size_t i = 0; i < nics.size(); ++i) {
    if (interface == nics[i].interface) return static_cast<std::uint32_t>(i);
  }
  throw std::runtime_error("the agent has no interface " + interface);
}

}  // namespace

LocalCapture::Pair::Pair(const Descriptor& rings, From from) {
  struct stat status{};
  if (fstat(rings.get(), &status) != 0 || status.st_size != static_cast<off_t>(local::kFileBytes)) {
    throw std::runtime_error("rings of a pair are not what they should be");
  }
  void* const at = mmap(nullptr, local::kFileBytes, PROT_READ, MAP_SHARED, rings.get(), 0);
  if (at == MAP_FAILED) throw std::runtime_error(std::string("can't map the rings of a pair: ") + std::strerror(errno));
  memory_ = static_cast<const std::byte*>(at);
  const auto* const tracks = reinterpret_cast<const local::Track*>(memory_ + local::kTracksAt);
  for (unsigned end = 0; end < 2; ++end) {
    taps[end] = local::RingTap(memory_ + local::kRingsAt + std::size_t{end} * local::kRingBytes, &tracks[end], from);
  }
}

LocalCapture::Pair::~Pair() { munmap(const_cast<std::byte*>(memory_), local::kFileBytes); }

LocalCapture::LocalCapture(LocalOptions options)
    : options_(std::move(options)), agent_(options_.socket_name), room_(local::kMostFrame) {
  nic_ = find_nic(agent_, options_.interface);
  find_pairs(From::kNow);
  thread_ = std::thread([this] { run(); });
}

LocalCapture::~LocalCapture() { stop(); }

void LocalCapture::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

// Asks for new pairs. Pairs that are found later are read from their beginning, as they are new.
void LocalCapture::find_pairs(From from) {
  for (;;) {
    const std::vector<tool::LocalPair> more = agent_.local_pairs(next_pair_);
    if (more.empty()) return;
    for (const tool::LocalPair& each : more) {
      if (each.pair.nic == nic_) pairs_.emplace_back(each.rings, from);
    }
  }
}

void LocalCapture::run() {
  auto ask_at = steady_clock::now();
  for (bool last = false; !last;) {
    last = stopping_;
    if (last || steady_clock::now() >= ask_at) {
      try {
        find_pairs(From::kBeginning);
      } catch (const std::exception&) {
        // The agent is away; frames that the programs exchange meanwhile are read as before.
      }
      ask_at = steady_clock::now() + kAskEvery;
    }
    if (read_pairs() == 0 && !last) std::this_thread::sleep_for(kPause);
  }
}

// Reads both rings of a pair in turn, as programs answer each other.
std::size_t LocalCapture::read_pairs() {
  std::size_t all = 0;
  for (auto pair = pairs_.begin(); pair != pairs_.end();) {
    const bool ended = pair->taps[0].has_ended() || pair->taps[1].has_ended();
    std::size_t got = 0;
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
      const bool one = read(pair->taps[0]), other = read(pair->taps[1]);
      if (!one && !other) break;
      ++got;
    }
    all += got;
    if (ended && got == 0) {
      gone_lost_ += pair->taps[0].lost() + pair->taps[1].lost();
      pair = pairs_.erase(pair);
    } else {
      ++pair;
    }
  }
  std::uint64_t lost = gone_lost_;
  for (const Pair& pair : pairs_) lost += pair.taps[0].lost() + pair.taps[1].lost();
  const std::lock_guard lock(mutex_);
  counts_.missed = lost;
  return all;
}

bool LocalCapture::read(local::RingTap& tap) {
  const bool was_broken = tap.broken();
  const std::uint32_t length = tap.next(room_.data());
  if (length != 0) put(room_.data(), length);
  if (tap.broken() && !was_broken) {
    const std::lock_guard lock(mutex_);
    ++counts_.broken;
  }
  return length != 0;
}

void LocalCapture::put(const std::byte* frame, std::uint32_t length) {
  const std::uint32_t kept = options_.snap_length == 0 ? length : std::min(length, options_.snap_length);
  const std::lock_guard lock(mutex_);
  ++counts_.received;
  if (queued_bytes_ + kept + kOfPacket > options_.buffer_bytes) {
    ++counts_.no_room;
    return;
  }
  Packet packet;
  packet.time_ns = now_ns();
  packet.interface = options_.number;
  packet.length = length;
  packet.bytes.assign(frame, frame + kept);
  queued_bytes_ += kept + kOfPacket;
  queue_.push_back(std::move(packet));
}

bool LocalCapture::next(Packet& packet) {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return false;
  packet = std::move(queue_.front());
  queue_.pop_front();
  queued_bytes_ -= packet.bytes.size() + kOfPacket;
  return true;
}

LocalCapture::Counts LocalCapture::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace viaduct::dump
