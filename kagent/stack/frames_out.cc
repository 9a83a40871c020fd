#include "kagent/stack/frames_out.h"

#include <algorithm>
#include <cstring>

#include "kagent/stack/backoff.h"

namespace viaduct {

namespace {

constexpr std::uint32_t kAnswersPerMs = 256;
constexpr std::size_t kMostInBundle = 1514;  // bytes of the Ethernet frame, also where longer ones are possible

}  // namespace

template <class Platform>
bool FramesOut<Platform>::reserve_frame(Frame& frame) {
  if (port_.reserve({&frame, 1}) == 1) return true;
  ++root_->counters.tx_postponed;
  return false;
}

template <class Platform>
bool FramesOut<Platform>::reserve_local(const MacAddress& to, std::uint32_t payload, Frame& frame) {
  constexpr std::uint32_t kAround = wire::kEthernetBytes + wire::kHeaderBytes + wire::kChecksumBytes;
  const std::uint32_t bytes = std::max<std::uint32_t>(kAround + payload, wire::kMinFrameBytes);
  if (bulk_path_.reserve_for(to, bytes, frame)) return true;
  ++root_->counters.tx_postponed;
  return false;
}

// `most`: bytes of a frame that the peer takes.
template <class Platform>
void FramesOut<Platform>::bundle(const Frame& frame, std::size_t most) {
  most = std::min(most, kMostInBundle);
  const std::size_t end = wire::end_of({frame.data, frame.length});
  const std::size_t rest = end - wire::kEthernetBytes;
  if (bundle_.data != nullptr) {
    if (bundle_end_ + rest <= most && std::memcmp(bundle_.data, frame.data, sizeof(MacAddress)) == 0) {
      std::memcpy(bundle_.data + bundle_end_, frame.data + wire::kEthernetBytes, rest);
      bundle_end_ += rest;
      bundle_.length = static_cast<std::uint32_t>(bundle_end_);
      port_.cancel({&frame, 1});
      ++root_->counters.frames_bundled;
      return;
    }
    end_bundle();
  }
  if (end > most / 2) return port_.submit({&frame, 1});
  bundle_ = frame;
  bundle_end_ = end;
}

template <class Platform>
void FramesOut<Platform>::submit_frame(Frame& frame, std::size_t length) {
  frame.length = static_cast<std::uint32_t>(length);
  end_bundle();
  port_.submit({&frame, 1});
  note_submitted();
}

template <class Platform>
void FramesOut<Platform>::send_short(wire::Type type, const MacAddress& to, std::uint32_t vi,
                                     std::uint64_t key, std::uint32_t psn, std::uint32_t ack,
                                     std::uint32_t immediate, std::uint32_t offset, bool local) {
  Frame frame;
  if (!(local ? reserve_local(to, 0, frame) : reserve_frame(frame))) return;
  wire::Header header{};
  header.type = type;
  header.vi = vi;
  header.key = key;
  header.psn = psn;
  header.ack = ack;
  header.immediate = immediate;
  header.offset = offset;
  submit_frame(frame, wire::encode(header, to, address_, ether_type_, frame.data));
}

template <class Platform>
bool FramesOut<Platform>::may_answer() {
  const std::uint64_t epoch = now_ / kMs;
  if (epoch != answer_epoch_) {
    answer_epoch_ = epoch;
    answers_in_epoch_ = 0;
  }
  return ++answers_in_epoch_ <= kAnswersPerMs;
}

template <class Platform>
void FramesOut<Platform>::send_moved(const MacAddress& source, const wire::ConnectBody& body,
                                     const MacAddress& to, std::uint64_t wanted) {
  Frame frame;
  if (!reserve_frame(frame)) return;
  wire::Header header{};
  header.type = wire::Type::kConnectMoved;
  header.vi = body.vi;
  header.key = body.key;
  header.psn = body.request;
  header.offset = static_cast<std::uint32_t>(wanted >> 32);
  header.immediate = static_cast<std::uint32_t>(wanted);
  header.payload_length = static_cast<std::uint16_t>(to.size());
  std::memcpy(frame.data + wire::kEthernetBytes + wire::kHeaderBytes, to.data(), to.size());
  submit_frame(frame, wire::encode(header, source, address_, ether_type_, frame.data));
}

}  // namespace viaduct
