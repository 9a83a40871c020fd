// Control frames on their way out, and how many of them answer strangers.
#ifndef VIADUCT_KAGENT_STACK_FRAMES_OUT_H
#define VIADUCT_KAGENT_STACK_FRAMES_OUT_H

#include <atomic>
#include <cstdint>

#include "kagent/stack/tables.h"

namespace viaduct {

template <class Platform>
class FramesOut {
 public:
  FramesOut(const Tables& tables, typename Platform::Port& port)
      : now_(tables.now), root_(tables.root), address_(tables.address),
        ether_type_(tables.ether_type), port_(port),
        bulk_path_(port.bulk_path()) {}

  bool reserve_frame(Frame& frame);
  // Reserves a frame of a connection on the path that it takes, with at most so many bytes of payload.
  bool reserve_frame(const state::Vi& vi, std::uint32_t payload, Frame& frame) {
    return vi.tx.path != state::Path::kLocal ? reserve_frame(frame) : reserve_local(vi.link.peer_address, payload, frame);
  }
  bool reserve_local(const MacAddress& to, std::uint32_t payload, Frame& frame);
  void submit_frame(Frame& frame, std::size_t length);
  // Submits frames of a connection that go by network. A short one waits until the end of the round for others to the same
  // peer: they share an Ethernet frame (a bundle).
  void submit(const state::Vi& vi, std::span<const Frame> frames) {
    submitted_ = true;
    if (frames.size() == 1 && vi.tx.bundled != 0 && vi.tx.path != state::Path::kLocal) {
      return bundle(frames[0], wire::kEthernetBytes + wire::kHeaderBytes + vi.link.payload + wire::kChecksumBytes);
    }
    end_bundle();
    port_.submit(frames);
  }
  void send_short(wire::Type type, const MacAddress& to, std::uint32_t vi, std::uint64_t key,
                  std::uint32_t psn, std::uint32_t ack, std::uint32_t immediate,
                  std::uint32_t offset = 0, bool local = false);
  // Limits how many answers to strangers are sent in a millisecond. False: no more now.
  bool may_answer();
  void send_moved(const MacAddress& source, const wire::ConnectBody& body, const MacAddress& to,
                  std::uint64_t cookie);
  // Notes that frames were submitted to the port, so that flush() hands them to the network.
  void note_submitted() { submitted_ = true; }
  void flush() {
    if (!submitted_) return;
    end_bundle();
    port_.flush();
    submitted_ = false;
  }
  // Frames that are submitted next go behind the bundle.
  void end_bundle() {
    if (bundle_.data == nullptr) return;
    port_.submit({&bundle_, 1});
    bundle_.data = nullptr;
  }
  // The flush at the end of a round, after which nothing is left half done: a round that was cut off there, as its thread
  // was killed, may be followed by another one.
  void flush_last() {
    if (!submitted_) return;
    end_bundle();
    in_last_flush_.store(true, std::memory_order_relaxed);
    flush();
    in_last_flush_.store(false, std::memory_order_relaxed);
  }
  bool in_last_flush() const { return in_last_flush_.load(std::memory_order_relaxed); }

 private:
  void bundle(const Frame& frame, std::size_t most);

  const std::uint64_t& now_;
  state::Root* root_;
  MacAddress address_;
  std::uint16_t ether_type_;
  typename Platform::Port& port_;
  typename Platform::BulkPath& bulk_path_;
  bool submitted_ = false;
  Frame bundle_{};                // not submitted yet; no data: there is none
  std::size_t bundle_end_ = 0;  // of its content
  std::atomic<bool> in_last_flush_{false};
  std::uint64_t answer_epoch_ = 0;
  std::uint32_t answers_in_epoch_ = 0;
};

}  // namespace viaduct

#endif
