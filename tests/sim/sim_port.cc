#include "tests/sim/sim_port.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kagent/contract/wire.h"
#include "tests/sim/sim_capture.h"

#if defined(__SANITIZE_ADDRESS__)
#define VIADUCT_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VIADUCT_HAS_ASAN 1
#endif
#endif
#ifdef VIADUCT_HAS_ASAN
#include <sanitizer/asan_interface.h>
#define VIADUCT_HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define VIADUCT_SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define VIADUCT_HIDE(p, n) ((void)(p), (void)(n))
#define VIADUCT_SHOW(p, n) ((void)(p), (void)(n))
#endif

namespace viaduct {
namespace {

constexpr std::uint32_t kEthernetBytes = 14;
constexpr std::size_t kWireOverhead = 24;  // preamble, frame check sequence, gap between frames
constexpr std::size_t kHashedBytes = 64;
constexpr std::uint32_t kNobody = SimCapture::kNobody;
constexpr std::uint32_t kMaxHosts = kNobody;
constexpr std::uint32_t kNoPacket = 0xffffffff;
constexpr int kPoison = 0xdd;

[[noreturn]] void broken(const char* call, const char* what, const char* why, std::uint32_t id) {
  std::fprintf(stderr, "SimPort::%s: %s buffer %u %s\n", call, what, id, why);
  std::abort();
}

std::uint64_t rotate(std::uint64_t v, int by) { return v << by | v >> (64 - by); }

std::uint64_t number_of(const std::uint8_t* address) {
  std::uint64_t n = 0;
  for (int i = 0; i < 6; ++i) n = n << 8 | address[i];
  return n;
}

std::uint64_t threshold(double fraction) {
  if (!(fraction > 0)) return 0;
  if (fraction >= 1) return ~0ull;
  return static_cast<std::uint64_t>(fraction * 18446744073709551616.0);
}

// The name of a counter of lost frames in a capture; nullptr: the frame arrived.
const char* loss_word(std::uint32_t fate) {
  switch (fate) {
    case offsetof(SimCounters, lost_fault): return "a fault of the link";
    case offsetof(SimCounters, lost_filter): return "the test's filter";
    case offsetof(SimCounters, lost_cut): return "the link is cut, or a host is dead";
    case offsetof(SimCounters, lost_no_host): return "no host has this address";
    case offsetof(SimCounters, lost_queue_full): return "the switch's queue is full";
    case offsetof(SimCounters, lost_receive): return "the receiver's queue or buffers are full";
    case offsetof(SimCounters, lost_too_long): return "longer than the receiver's MTU";
    case offsetof(SimCounters, lost_stranger): return "a train's frame of a stranger, or of another type";
    default: return nullptr;
  }
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

}  // namespace

// ---------------------------------------------------------------------------- SimRandom

SimRandom::SimRandom(std::uint64_t seed) {
  for (auto& word : state_) {
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    word = z ^ z >> 31;
  }
}

std::uint64_t SimRandom::next() {
  const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate(state_[3], 45);
  return result;
}

std::uint64_t SimRandom::below(std::uint64_t n) {
  // Draws above the last whole multiple of n would favour small results.
  const std::uint64_t excess = (0 - n) % n;
  std::uint64_t draw;
  do {
    draw = next();
  } while (draw < excess);
  return draw % n;
}

// ---------------------------------------------------------------------------- SimBuffers

SimBuffers::SimBuffers(const char* what, std::uint32_t count, std::uint32_t bytes)
    : what_(what),
      count_(count),
      bytes_(bytes),
      stride_((std::size_t{bytes} + 63) / 64 * 64),
      memory_(new std::byte[stride_ * count]),
      owner_(count, Owner::kPort) {
  free_.reserve(count);
  VIADUCT_HIDE(memory_.get(), stride_ * count_);
}

SimBuffers::~SimBuffers() { VIADUCT_SHOW(memory_.get(), stride_ * count_); }

std::uint32_t SimBuffers::take() {
  std::uint32_t id;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
    VIADUCT_SHOW(data(id), bytes_);
  } else {
    id = used_++;
    VIADUCT_SHOW(data(id), bytes_);
    std::memset(data(id), kPoison, bytes_);
  }
  return id;
}

void SimBuffers::lend(std::uint32_t id, std::uint32_t length) {
  VIADUCT_HIDE(data(id), stride_);
  VIADUCT_SHOW(data(id), length);
  owner_[id] = Owner::kBorrower;
  ++lent_;
}

void SimBuffers::take_back(const Frame& frame, const char* call) {
  if (frame.id >= count_) broken(call, what_, "does not exist", frame.id);
  if (owner_[frame.id] != Owner::kBorrower) broken(call, what_, "is not lent", frame.id);
  if (frame.data != data(frame.id)) broken(call, what_, "comes back with other memory", frame.id);
  owner_[frame.id] = Owner::kPort;
  --lent_;
  VIADUCT_HIDE(data(frame.id), stride_);
}

std::span<std::byte> SimBuffers::open(std::uint32_t id, std::uint32_t length) {
  VIADUCT_SHOW(data(id), length);
  return {data(id), length};
}

void SimBuffers::poison(std::uint32_t id, std::uint32_t used) {
  VIADUCT_SHOW(data(id), used);
  std::memset(data(id), kPoison, used);
  VIADUCT_HIDE(data(id), stride_);
}

void SimBuffers::give(std::uint32_t id, std::uint32_t used) {
  poison(id, used);
  free_.push_back(id);
}

void SimBuffers::take_back_all() {
  for (std::uint32_t id = 0; id < used_; ++id) {
    if (owner_[id] != Owner::kBorrower) continue;
    owner_[id] = Owner::kPort;
    --lent_;
    give(id, bytes_);
  }
}

// ---------------------------------------------------------------------------- SimPort

SimPort::SimPort(SimNetwork& network, std::uint32_t host, const MacAddress& address,
                 std::uint32_t mtu)
    : network_(network),
      host_(host),
      address_(address),
      mtu_(mtu),
      receive_("received", network.options_.receive_frames, kEthernetBytes + mtu),
      transmit_("reserved", network.options_.transmit_frames, kEthernetBytes + mtu),
      came_by_train_(network.options_.receive_frames) {}

std::size_t SimPort::receive(std::span<Frame> frames) {
  if (paused_ || !alive_) return 0;
  const std::size_t n =
      std::min(frames.size(), network_.options_.express_first ? put_express_first() : received_.size());
  for (std::size_t i = 0; i < n; ++i) {
    const Queued queued = received_.front();
    received_.pop_front();
    receive_.lend(queued.id, queued.length);
    frames[i] = {receive_.data(queued.id), queued.length, queued.id};
    ++counters_.rx_frames;
    counters_.rx_bytes += queued.length;
  }
  return n;
}

// Returns how many frames the next call of receive() may hand out.
std::size_t SimPort::put_express_first() {
  constexpr std::size_t kTrainFrames = 8;
  const auto is_express = [this](const Queued& queued) { return came_by_train_[queued.id] == 0; };
  const auto trains = std::stable_partition(received_.begin(), received_.end(), is_express);
  const auto express = static_cast<std::size_t>(trains - received_.begin());
  const bool looks = std::exchange(trains_came_, false) || express == 0;
  return looks ? std::min(received_.size(), express + kTrainFrames) : express;
}

void SimPort::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    receive_.take_back(frame, "release");
    receive_.give(frame.id, std::min(frame.length, receive_.bytes()));
  }
}

std::size_t SimPort::reserve(std::span<Frame> frames) {
  reclaim();
  std::size_t n = 0;
  while (n < frames.size() && transmit_.available() > 0) {
    const std::uint32_t id = transmit_.take();
    transmit_.lend(id, transmit_.bytes());
    frames[n++] = {transmit_.data(id), transmit_.bytes(), id};
  }
  if (n < frames.size()) {
    ++counters_.tx_no_buffer;
    starved_ = true;
    network_.wake_when_sent(*this);
  }
  return n;
}

void SimPort::submit(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    transmit_.take_back(frame, "submit");
    if (frame.length < kEthernetBytes) broken("submit", "reserved", "is too short", frame.id);
    if (frame.length > transmit_.bytes()) broken("submit", "reserved", "is too long", frame.id);
    submitted_.push_back({frame.id, frame.length});
  }
}

void SimPort::submit_bulk(std::span<const Frame> frames, Prepare prepare) {
  for (Frame frame : frames) {
    MacAddress to;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(frame.data), to.size(), to.begin());
    const bool by_train = trains_to_.contains(to);
    if (!by_train) prepare(frame);
    submit({&frame, 1});
    if (!by_train || submitted_.empty()) continue;
    submitted_.back().by_train = true;
    ++by_train_;
    if (frame.length > kEthernetBytes + mtu_ - kAroundTrainFrame) broken("submit_bulk", "reserved", "is too long", frame.id);
  }
}

bool SimPort::takes_pieces_of(std::uint32_t) const { return network_.options_.pieces; }

bool SimPort::submit_pieces(std::span<const std::byte> head, std::span<const iovec> pieces) {
  Frame frame;
  if (reserve({&frame, 1}) != 1) return false;
  std::byte* to = std::copy(head.begin(), head.end(), frame.data);
  for (const iovec& piece : pieces) {
    const auto* const from = static_cast<const std::byte*>(piece.iov_base);
    to = std::copy(from, from + piece.iov_len, to);
  }
  frame.length = static_cast<std::uint32_t>(to - frame.data);
  submit_bulk({&frame, 1}, [](Frame&) {});
  return true;
}

TrainAddress SimPort::train_address() const {
  TrainAddress out;
  if (!network_.options_.trains) return out;
  out.port = 1;
  out.v4 = {10, 0, 0, static_cast<std::uint8_t>(host_)};
  return out;
}

void SimPort::cancel(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    transmit_.take_back(frame, "cancel");
    transmit_.give(frame.id, transmit_.bytes());
  }
}

void SimPort::flush() {
  if (submitted_.empty() || paused_) return;
  ++counters_.tx_kicks;
  for (const Queued& queued : submitted_) {
    ++counters_.tx_frames;
    counters_.tx_bytes += queued.length;
    link_free_ = std::max(link_free_, network_.now_) + network_.link_time(queued.length);
    network_.transmit(*this, transmit_.open(queued.id, queued.length), queued.by_train);
    transmit_.poison(queued.id, queued.length);
    sending_.push_back({queued.id, link_free_});
  }
  submitted_.clear();
  if (starved_) network_.wake_when_sent(*this);
}

std::uint32_t SimPort::lendable() const { return network_.options_.lendable; }

std::uint32_t SimPort::backlog() const {
  const SimOptions& options = network_.options_;
  return std::min(options.receive_queue,
                  options.receive_frames - std::min(options.receive_frames, options.lendable));
}

void SimPort::reclaim() {
  while (!sending_.empty() && sending_.front().until <= network_.now_) {
    transmit_.give(sending_.front().id, 0);
    sending_.pop_front();
  }
}

bool SimPort::takes_train(std::span<const std::byte> frame) const {
  constexpr std::size_t kSource = 6, kType = kEthernetBytes + 1;
  if (frame.size() <= kType) return false;
  MacAddress source;
  const auto* const at = reinterpret_cast<const std::uint8_t*>(frame.data()) + kSource;
  std::copy(at, at + source.size(), source.begin());
  return trains_from_.contains(source) && (wire::kTrainTypes >> std::to_integer<unsigned>(frame[kType]) & 1) != 0;
}

bool SimPort::deliver(std::span<const std::byte> frame, bool by_train) {
  if (received_.size() >= network_.options_.receive_queue) {
    ++counters_.rx_dropped_ring_full;
    return false;
  }
  if (receive_.available() == 0) {
    ++counters_.rx_dropped_no_fill;
    return false;
  }
  const std::uint32_t id = receive_.take();
  std::memcpy(receive_.data(id), frame.data(), frame.size());
  came_by_train_[id] = by_train;
  received_.push_back({id, static_cast<std::uint32_t>(frame.size())});
  return true;
}

// ---------------------------------------------------------------------------- SimNetwork

SimNetwork::SimNetwork(const SimOptions& options, std::uint64_t seed)
    : options_(options), random_(seed), now_(options.start_ns), capture_(SimCapture::open()) {
  set_faults(options.faults);
  set_train_faults(options.train_faults);
}

SimNetwork::~SimNetwork() = default;

SimPort& SimNetwork::add_host(const MacAddress& address, std::uint32_t mtu) {
  const auto host = static_cast<std::uint32_t>(hosts_.size());
  if (host >= kMaxHosts || !by_address_.emplace(number_of(address.data()), host).second) {
    std::fprintf(stderr, "SimNetwork::add_host: too many hosts, or address in use\n");
    std::abort();
  }
  hosts_.push_back(std::unique_ptr<SimPort>(new SimPort(*this, host, address, mtu)));
  if (capture_ != nullptr) capture_->add_host(host, address);
  if (hosts_.size() > pair_stride_) {
    const std::size_t stride = std::max<std::size_t>(8, pair_stride_ * 2);
    std::vector<std::uint8_t> cut(stride * stride, 0);
    std::vector<std::uint64_t> last_arrival(stride * stride, 0);
    for (std::size_t from = 0; from < host; ++from) {
      for (std::size_t to = 0; to < host; ++to) {
        cut[from * stride + to] = cut_[from * pair_stride_ + to];
        last_arrival[from * stride + to] = last_arrival_[from * pair_stride_ + to];
      }
    }
    cut_ = std::move(cut);
    last_arrival_ = std::move(last_arrival);
    last_train_.assign(stride * stride, now_);
    pair_stride_ = stride;
  }
  return *hosts_.back();
}

void SimNetwork::advance_to(std::uint64_t time) {
  while (!events_.empty() && events_.front().time <= time) {
    std::pop_heap(events_.begin(), events_.end());
    const Event event = events_.back();
    events_.pop_back();
    now_ = std::max(now_, event.time);
    handle(event);
  }
  now_ = std::max(now_, time);
}

void SimNetwork::set_faults(const SimFaults& faults) {
  options_.faults = faults;
  odds_ = odds_of(faults);
}

void SimNetwork::set_train_faults(const SimFaults& faults) {
  options_.train_faults = faults;
  train_odds_ = odds_of(faults);
}

SimNetwork::Odds SimNetwork::odds_of(const SimFaults& faults) {
  return {threshold(faults.loss), threshold(faults.duplication), threshold(faults.reordering),
          threshold(faults.corruption)};
}

void SimNetwork::mend_all() { std::fill(cut_.begin(), cut_.end(), std::uint8_t{0}); }

void SimNetwork::resume(SimPort& port) {
  port.paused_ = false;
  port.flush();
}

bool SimNetwork::inject(SimPort& to, std::span<const std::byte> frame, bool by_train) {
  ++counters_.injected;
  if (frame.size() > to.receive_.bytes()) {
    lose(counters_.lost_too_long, kNobody, to.host_, frame);
  } else if (!to.alive_) {
    lose(counters_.lost_cut, kNobody, to.host_, frame);
  } else if (by_train && !to.takes_train(frame)) {
    lose(counters_.lost_stranger, kNobody, to.host_, frame);
  } else if (!to.deliver(frame, by_train)) {
    lose(counters_.lost_receive, kNobody, to.host_, frame);
  } else {
    ++counters_.delivered;
    note(0, kNobody, to.host_, frame);
    return true;
  }
  return false;
}

void SimNetwork::reopen(SimPort& port) {
  port.receive_.take_back_all();
  port.transmit_.take_back_all();
  for (const SimPort::Queued& queued : port.received_) port.receive_.give(queued.id, queued.length);
  for (const SimPort::Queued& queued : port.submitted_) {
    port.transmit_.give(queued.id, queued.length);
  }
  port.received_.clear();
  port.submitted_.clear();
  port.trains_to_.clear();
  port.trains_from_.clear();
  port.paused_ = port.starved_ = false;
}

void SimNetwork::transmit(SimPort& from, std::span<const std::byte> frame, bool by_train) {
  ++counters_.sent;
  counters_.by_train += by_train ? 1 : 0;
  const std::uint32_t packet = new_packet(frame);
  std::vector<std::byte>& bytes = packets_[packet].bytes;
  if (filter_ && !filter_(from, bytes)) {
    lose(counters_.lost_filter, from.host_, kNobody, bytes);
    drop_packet(packet);
    return;
  }
  const auto* destination = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if ((destination[0] & 1) != 0) {
    for (const auto& to : hosts_) {
      if (to.get() != &from) send_copies(from, *to, packet, from.link_free_, by_train);
    }
  } else {
    const auto found = by_address_.find(number_of(destination));
    if (found == by_address_.end() || found->second == from.host_) {
      lose(counters_.lost_no_host, from.host_, kNobody, bytes);
    } else {
      send_copies(from, *hosts_[found->second], packet, from.link_free_, by_train);
    }
  }
  drop_packet(packet);
}

// One receiver's share of a frame whose last bit leaves at `left`.
void SimNetwork::send_copies(const SimPort& from, SimPort& to, std::uint32_t packet,
                             std::uint64_t left, bool by_train) {
  const SimFaults& faults = by_train ? options_.train_faults : options_.faults;
  const Odds& odds = by_train ? train_odds_ : odds_;
  const std::uint64_t extra_max = std::max<std::uint64_t>(faults.reorder_ns, 1);
  std::uint64_t arrival = left + (by_train ? options_.train_latency_ns : options_.latency_ns);
  if (faults.jitter_ns > 0) arrival += random_.below(faults.jitter_ns + 1);
  const bool lost = happens(odds.loss);
  const bool twice = happens(odds.duplication);
  if (happens(odds.reordering)) {
    ++counters_.reordered;
    arrival += 1 + random_.below(extra_max);
  } else {
    std::uint64_t& last = (by_train ? last_train_ : last_arrival_)[pair(from, to)];
    last = arrival = std::max(arrival, last);
  }
  if (lost) {
    lose(counters_.lost_fault, from.host_, to.host_, packets_[packet].bytes);
  } else {
    travel(from, to, packet, arrival, by_train);
  }
  if (twice) {
    ++counters_.duplicated;
    travel(from, to, packet, arrival + random_.below(extra_max + 1), by_train);
  }
}

namespace {

// Whether a frame has a checksum of its own: all but data without the flag.
bool has_checksum(std::span<const std::byte> frame) {
  constexpr std::size_t kType = 15, kFlags = 17;
  constexpr std::byte kData{1}, kChecked{0x80};
  return frame.size() <= kFlags || frame[kType] != kData || (frame[kFlags] & kChecked) != std::byte{};
}

}  // namespace

void SimNetwork::travel(const SimPort& from, const SimPort& to, std::uint32_t packet,
                        std::uint64_t arrival, bool by_train) {
  if (severed(from, to)) {
    lose(counters_.lost_cut, from.host_, to.host_, packets_[packet].bytes);
    return;
  }
  const bool inside = options_.hosts_by_last_byte && from.address_.back() == to.address_.back();
  if (happens((by_train ? train_odds_ : odds_).corruption) && !inside) {
    if (by_train && !has_checksum(packets_[packet].bytes)) {  // UDP's own finds it
      ++counters_.corrupted;
      lose(counters_.lost_fault, from.host_, to.host_, packets_[packet].bytes);
      return;
    }
    packet = corrupted_copy(packet, by_train ? options_.train_faults : options_.faults);
  } else {
    ++packets_[packet].users;
  }
  const What what = options_.bits_per_second != 0 ? What::kAtSwitch : What::kAtHost;
  push(arrival, what, packet, from.host_, to.host_, by_train);
}

void SimNetwork::handle(const Event& event) {
  if (event.what == What::kWake) {
    hosts_[event.to]->wake_due_ = hosts_[event.to]->starved_ = false;
    return;
  }
  SimPort& to = *hosts_[event.to];
  const SimPort& from = *hosts_[event.from];
  const std::vector<std::byte>& bytes = packets_[event.packet].bytes;
  if (event.what == What::kAtSwitch) {
    if (to.queue_used_ >= options_.queue_frames) {
      lose(counters_.lost_queue_full, event.from, event.to, bytes);
      drop_packet(event.packet);
      return;
    }
    ++to.queue_used_;
    to.queue_free_ = std::max(to.queue_free_, now_) + link_time(bytes.size());
    push(to.queue_free_, What::kAtHost, event.packet, event.from, event.to, event.by_train);
    return;
  }
  if (options_.bits_per_second != 0) --to.queue_used_;
  if (severed(from, to)) {
    lose(counters_.lost_cut, event.from, event.to, bytes);
  } else if (bytes.size() > to.receive_.bytes()) {
    lose(counters_.lost_too_long, event.from, event.to, bytes);
  } else if (event.by_train && !to.takes_train(bytes)) {
    lose(counters_.lost_stranger, event.from, event.to, bytes);
  } else if (!to.deliver(bytes, event.by_train)) {
    lose(counters_.lost_receive, event.from, event.to, bytes);
  } else {
    ++counters_.delivered;
    note(0, event.from, event.to, bytes);
  }
  drop_packet(event.packet);
}

// A host that found too few buffers wants to be driven again when one comes back.
void SimNetwork::wake_when_sent(SimPort& port) {
  if (port.wake_due_ || port.sending_.empty()) return;
  port.wake_due_ = true;
  push(port.sending_.front().until, What::kWake, kNoPacket, port.host_, port.host_);
}

bool SimNetwork::happens(std::uint64_t threshold) {
  return threshold != 0 && random_.next() <= threshold;
}

void SimNetwork::push(std::uint64_t time, What what, std::uint32_t packet, std::uint32_t from,
                      std::uint32_t to, bool by_train) {
  events_.push_back({time, sequence_++, packet, static_cast<std::uint16_t>(from),
                     static_cast<std::uint16_t>(to), what, by_train});
  std::push_heap(events_.begin(), events_.end());
}

std::uint64_t SimNetwork::link_time(std::size_t bytes) const {
  if (options_.bits_per_second == 0) return 0;
  const std::uint64_t bits = (bytes + kWireOverhead) * 8;
  return (bits * 1'000'000'000 + options_.bits_per_second - 1) / options_.bits_per_second;
}

std::size_t SimNetwork::pair(const SimPort& from, const SimPort& to) const {
  return from.host_ * pair_stride_ + to.host_;
}

void SimNetwork::set_cut(const SimPort& from, const SimPort& to, bool cut) {
  cut_[pair(from, to)] = cut ? 1 : 0;
}

bool SimNetwork::severed(const SimPort& from, const SimPort& to) const {
  return cut_[pair(from, to)] != 0 || !from.alive_ || !to.alive_;
}

std::uint32_t SimNetwork::new_packet(std::span<const std::byte> bytes) {
  std::uint32_t packet;
  if (!free_packets_.empty()) {
    packet = free_packets_.back();
    free_packets_.pop_back();
  } else {
    packet = static_cast<std::uint32_t>(packets_.size());
    packets_.emplace_back();
  }
  packets_[packet].bytes.assign(bytes.begin(), bytes.end());
  packets_[packet].users = 1;
  return packet;
}

void SimNetwork::drop_packet(std::uint32_t packet) {
  if (--packets_[packet].users == 0) free_packets_.push_back(packet);
}

std::uint32_t SimNetwork::corrupted_copy(std::uint32_t packet, const SimFaults& faults) {
  const std::vector<std::byte> original = packets_[packet].bytes;
  const std::uint32_t copy = new_packet(original);
  std::vector<std::byte>& bytes = packets_[copy].bytes;
  const std::size_t to = std::min<std::size_t>(faults.corrupt_to, bytes.size());
  if (faults.corrupt_from < to) {
    ++counters_.corrupted;
    for (std::uint32_t i = 0; i < faults.corrupt_bits; ++i) {
      const std::uint64_t bit = random_.below((to - faults.corrupt_from) * 8);
      bytes[faults.corrupt_from + bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
  }
  return copy;
}

void SimNetwork::lose(std::uint64_t& counter, std::uint32_t from, std::uint32_t to,
                      std::span<const std::byte> frame) {
  ++counter;
  const auto fate =
      reinterpret_cast<const std::byte*>(&counter) - reinterpret_cast<const std::byte*>(&counters_);
  note(static_cast<std::uint32_t>(fate), from, to, frame);
}

void SimNetwork::note(std::uint32_t fate, std::uint32_t from, std::uint32_t to,
                      std::span<const std::byte> frame) {
  if (capture_ != nullptr) capture_->add_frame(now_, from, to, loss_word(fate), frame);
  hash_ = mix(hash_, now_);
  hash_ = mix(hash_, std::uint64_t{fate} << 32 | from << 16 | to);
  hash_ = mix(hash_, frame.size());
  const std::size_t end = std::min(frame.size(), kHashedBytes);
  for (std::size_t at = 0; at < end; at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = at; i < std::min(at + 8, end); ++i) {
      word = word << 8 | std::to_integer<std::uint64_t>(frame[i]);
    }
    hash_ = mix(hash_, word);
  }
}

}  // namespace viaduct
