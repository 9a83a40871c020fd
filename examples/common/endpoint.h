// One end of a connection: a VI, its memory, and how messages are made and compared.
#ifndef VIADUCT_EXAMPLES_COMMON_ENDPOINT_H
#define VIADUCT_EXAMPLES_COMMON_ENDPOINT_H

#include <vipl.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "examples/common/messages.h"
#include "examples/common/nic.h"

namespace via {

inline constexpr milliseconds kSilenceLimit{10000};  // a peer that says nothing for so long is lost

// kMaxSize pseudo-random bytes and as many more as message numbers shift the start.
class Pattern {
 public:
  static constexpr std::uint32_t kStarts = 251;  // prime, so that rings of 2^n do not meet it
  static constexpr std::uint32_t kStep = 8;

  static constexpr std::size_t bytes(std::uint32_t size) {
    return (size + std::size_t{kStarts} * kStep + 63) & ~std::size_t{63};
  }
  static std::uint32_t start(std::uint32_t message) { return message % kStarts * kStep; }

  static void fill(std::uint8_t* to, std::size_t bytes) {
    std::uint64_t x = 0x9e3779b97f4a7c15;
    for (std::size_t i = 0; i < bytes; ++i) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      to[i] = static_cast<std::uint8_t>(x >> 32);
    }
  }
};

// A VI with its memory: the pattern, receive buffers and descriptors, in one registered region.
//
//   | pattern | receive buffers | receive descriptors | send descriptors | small outgoing data |
//
// Functions that look at completions throw ConnectionLost when the connection is over and Failure
// when something else is wrong.
class Endpoint {
 public:
  struct Shape {
    std::uint32_t size;          // bytes of the largest message to send or to compare with
    std::uint32_t receive_size;  // bytes of each receive buffer
    std::uint32_t receives;      // posted at once, all of them from the beginning
    std::uint32_t sends;         // posted at once, at most
  };

  // `block`: wait asleep rather than asking again and again. `receive_cq`: gets an entry for each
  // completed receive; NULL: none does.
  Endpoint(Nic& nic, VIP_VI_ATTRIBUTES attributes, const Shape& shape, bool block,
           VIP_CQ_HANDLE receive_cq = nullptr);
  ~Endpoint() { close(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  VIP_VI_HANDLE vi() const { return vi_; }
  std::uint32_t refused() const { return nic_.refused(vi_); }
  std::uint32_t free_sends() const { return shape_.sends - sends_posted_; }

  void post_receive(VIP_DESCRIPTOR* d);

  // Sends message `number` of the pattern. There must be a free send; the same goes for all sends.
  void send_message(std::uint32_t number, std::uint32_t size) {
    post_send(number, memory_.get() + Pattern::start(number), size);
  }

  // A credit, or "end".
  void send_number(std::uint32_t number) { post_send(number, nullptr, 0); }

  void send_report(const Report& report) {
    report.encode(small_);
    post_send(kEnd, small_, Report::kBytes);
  }

  // Tells the peer where our buffers, or our pattern, are. It needs leave to write, or to read.
  void send_target(Operation operation) {
    const std::uint8_t* const at = operation == Operation::kWrite ? receive_buffers_ : memory_.get();
    Target{reinterpret_cast<std::uint64_t>(at), region_}.encode(small_);
    post_send(0, small_, Target::kBytes);
  }

  // Writes message `number` of the pattern into buffer `slot` of the peer, and says so.
  void write_message(std::uint32_t number, std::uint32_t size, const Target& target,
                     std::uint32_t slot);

  // Reads message `number` of the peer's pattern into our buffer `slot`.
  void read_message(std::uint32_t number, std::uint32_t size, const Target& target,
                    std::uint32_t slot);

  // Buffer `slot`.
  const std::uint8_t* buffer(std::uint32_t slot) const {
    return receive_buffers_ + receive_stride_ * slot;
  }

  // The next received message; null when none came within `limit` or when the program was stopped.
  // A limit of 0 asks once.
  VIP_DESCRIPTOR* receive(milliseconds limit) {
    return await(limit, VipRecvDone, VipRecvWait, "receive");
  }

  // Takes completed sends back.
  void reap();

  // Waits until a send can be posted.
  void make_room();

  // Waits until the oldest send, write or read has completed.
  void await_send();

  const std::uint8_t* data(const VIP_DESCRIPTOR* d) const {
    return static_cast<const std::uint8_t*>(d->DS[0].Local.Data.Address);
  }

  // Throws Failure unless a received message is what message `number` has to be.
  void verify(const VIP_DESCRIPTOR* d, std::uint32_t number, std::uint32_t size) const;
  void verify(const std::uint8_t* is, std::uint32_t number, std::uint32_t size) const;

 private:
  using Done = VIP_RETURN (*)(VIP_VI_HANDLE, VIP_DESCRIPTOR**);
  using Wait = VIP_RETURN (*)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR**);
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };

  void post_send(std::uint32_t number, std::uint8_t* from, std::uint32_t length);
  void post_rdma(VIP_UINT16 control, std::uint32_t number, std::uint8_t* local, std::uint32_t length,
                 const Target& target, std::uint64_t offset);
  void post(VIP_DESCRIPTOR* d);
  VIP_DESCRIPTOR* await(milliseconds limit, Done done, Wait wait, const char* what);
  static void judge(VIP_RETURN result, const VIP_DESCRIPTOR* d, const char* what);
  void close();

  Nic& nic_;
  const Shape shape_;
  const bool block_;
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::size_t receive_stride_ = 0;
  std::uint8_t* receive_buffers_ = nullptr;
  VIP_DESCRIPTOR* receives_ = nullptr;
  VIP_DESCRIPTOR* sends_ = nullptr;
  std::uint8_t* small_ = nullptr;
  VIP_PROTECTION_HANDLE ptag_ = nullptr;
  VIP_MEM_HANDLE region_ = 0;
  VIP_VI_HANDLE vi_ = nullptr;
  std::uint32_t next_send_ = 0;
  std::uint32_t sends_posted_ = 0;
};

}  // namespace via

#endif
