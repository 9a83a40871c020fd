// The stack's own cost, in instructions: two stacks back to back over a port that does next to nothing. Not run by
// "make check".
//
//   valgrind --tool=callgrind --toggle-collect="*Stack*::progress*" tests/sim/stack_bench
//     with one of  pingpong, stream, small  and a count
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/sim_host.h"

namespace viaduct::sim {
namespace {

// One end of a cable. Buffers are taken in turn; the receiver looks at the sender's.
class BenchPort final : public Port {
 public:
  explicit BenchPort(const MacAddress& address) : address_(address) {}
  BenchPort* other = nullptr;

  std::size_t receive(std::span<Frame> frames) override {
    std::size_t n = 0;
    for (; n < frames.size() && head_ != other->tail_; ++n, ++head_) {
      frames[n] = other->sent_[head_ % kFrames];
    }
    return n;
  }
  void release(std::span<const Frame>) override {}
  std::size_t reserve(std::span<Frame> frames) override {
    for (Frame& frame : frames) {
      frame = {memory_[next_ % kFrames], 2048, next_ % kFrames};
      ++next_;
    }
    return frames.size();
  }
  void submit(std::span<const Frame> frames) override {
    for (const Frame& frame : frames) sent_[tail_++ % kFrames] = frame;
  }
  void cancel(std::span<const Frame> frames) override {
    next_ -= static_cast<std::uint32_t>(frames.size());
  }
  void flush() override {}
  std::uint32_t mtu() const override { return 1500; }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override { return 1024; }
  std::uint32_t backlog() const override { return lendable(); }
  int descriptor() const override { return -1; }
  std::string mode() const override { return "bench"; }
  PortCounters counters() override { return {}; }
  bool alive() const override { return true; }
  bool reaches(const MacAddress&) const override { return true; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  static constexpr std::uint32_t kFrames = 4096;
  alignas(64) std::byte memory_[kFrames][2048];
  Frame sent_[kFrames];
  std::uint32_t head_ = 0, tail_ = 0, next_ = 0;
  MacAddress address_;
  NoBulkPath no_bulk_path_{*this};
};

// A queue pair's client side without the comfort (and cost) of Program.
struct End {
  Program& program;
  std::uint32_t vi, handle, descriptor_handle;
  std::uint64_t descriptor;
  std::byte* data;
  std::uint32_t generation = 0, sent = 0, received = 0, sent_done = 0, received_done = 0;
  std::uint32_t base = 1024;  // slots [base, base + 512) are ours

  void post(bool receive, std::uint32_t length) {
    const layout::View& view = program.view();
    std::uint32_t& position = receive ? received : sent;
    const std::uint32_t index = base + (receive ? 256 : 0) + position % 256;
    layout::Slot& slot = view.slot(index);
    slot.completion.status.store(0, std::memory_order_relaxed);
    layout::SlotRequest& request = slot.request;
    const bool fits = !receive && 16 + length <= layout::kMaxInlineSend;
    request.op = receive ? layout::kOpReceive : layout::kOpSend;
    request.flags = fits ? layout::kSlotInline : std::uint16_t{0};
    request.segment_count = 1;
    request.length = length;
    request.descriptor = descriptor;
    request.descriptor_handle = descriptor_handle;
    request.payload.segments[0] = {reinterpret_cast<std::uint64_t>(data), handle, length};
    if (fits) std::memcpy(request.payload.inline_data + 16, data, length);
    layout::RingEntry* ring = receive ? view.receive_ring(vi) : view.send_ring(vi);
    ring[position % layout::kRingEntries].word.store(
        layout::ring_word(index, position, generation), std::memory_order_release);
    ++position;
    if (!receive) view.header().doorbells.ring(layout::vi_bit(vi));
  }
  bool done(bool receive) {
    std::uint32_t& position = receive ? received_done : sent_done;
    if (position == (receive ? received : sent)) return false;
    const std::uint32_t index = base + (receive ? 256 : 0) + position % 256;
    const std::uint32_t status = program.view().slot(index).completion.status.load();
    if (status == 0) return false;
    if ((status & vip::kErrorMask) != 0) std::abort();
    ++position;
    return true;
  }
};

int main_of(const std::string& what, unsigned count, std::uint16_t level) {
  SimNetwork network(SimOptions{}, 1);
  auto here = std::make_unique<BenchPort>(MacAddress{2, 0, 0, 0, 0, 1});
  auto there = std::make_unique<BenchPort>(MacAddress{2, 0, 0, 0, 0, 2});
  here->other = there.get(), there->other = here.get();
  SimPort& unused_a = network.add_host({2, 0, 0, 0, 9, 1}, 1500);
  SimPort& unused_b = network.add_host({2, 0, 0, 0, 9, 2}, 1500);
  const MacAddress address_a = here->address(), address_b = there->address();
  Host a(network, unused_a, std::move(here), {address_a, address_a}, small_limits(), "a", 1);
  Host b(network, unused_b, std::move(there), {address_b, address_b}, small_limits(), "b", 2);
  Host* hosts[] = {&a, &b};
  Program client(a), server(b);
  const std::uint32_t client_vi = client.create_vi(level);
  const std::uint32_t server_vi = server.create_vi(level);
  if (!connect(network, hosts, client, client_vi, server, server_vi, address_b)) return 1;
  std::vector<std::byte> out(4096), in(4096);
  const auto end = [&](Program& p, std::uint32_t vi, std::vector<std::byte>& data) {
    End e{p, vi, p.register_memory(data.data(), data.size()), p.descriptor_handle(),
          reinterpret_cast<std::uint64_t>(p.descriptor()), data.data()};
    e.generation = p.view().vi(vi).status.generation.load();
    return e;
  };
  End from = end(client, client_vi, out), to = end(server, server_vi, in);
  std::uint64_t now = network.now();
  const std::uint64_t frames_before =
      a.stack->counters().data_frames_sent + b.stack->counters().data_frames_sent;
  const std::uint64_t acks_before = a.stack->counters().acks_sent + b.stack->counters().acks_sent;
  if (what == "pingpong") {
    from.post(true, 64), to.post(true, 64);
    for (unsigned i = 0; i < count; ++i) {
      for (End* e : {&from, &to}) {
        End* other = e == &from ? &to : &from;
        Stack& mine = e == &from ? *a.stack : *b.stack;
        Stack& its = e == &from ? *b.stack : *a.stack;
        e->post(false, 4);
        mine.progress(now += 500);
        its.progress(now += 500);
        if (!other->done(true)) return 1;
        other->post(true, 64);
        e->done(false);
      }
    }
  } else {
    const std::uint32_t size = what == "small" ? 32 : 1448;
    unsigned got = 0;
    for (int i = 0; i < 200; ++i) to.post(true, size);
    while (got < count) {
      while (from.sent - from.sent_done < 64 && from.sent < count) from.post(false, size);
      a.stack->progress(now += 1000);
      b.stack->progress(now += 1000);
      for (; to.done(true); ++got) to.post(true, size);
      while (from.done(false)) {}
    }
  }
  std::printf("%s: %u messages, %llu data frames, %llu acknowledgements\n", what.c_str(),
              what == "pingpong" ? 2 * count : count,
              static_cast<unsigned long long>(a.stack->counters().data_frames_sent +
                                              b.stack->counters().data_frames_sent -
                                              frames_before),
              static_cast<unsigned long long>(a.stack->counters().acks_sent +
                                              b.stack->counters().acks_sent - acks_before));
  return 0;
}

}  // namespace
}  // namespace viaduct::sim

int main(int argc, char** argv) {
  const unsigned count = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 10000;
  const bool unreliable = argc > 3 && std::string(argv[3]) == "ud";
  return viaduct::sim::main_of(argc > 1 ? argv[1] : "pingpong", count,
                               unreliable ? viaduct::vip::kUnreliable
                                          : viaduct::vip::kReliableDelivery);
}
