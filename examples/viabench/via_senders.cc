#include <unistd.h>

#include <map>
#include <memory>
#include <vector>

#include "examples/common/stream.h"
#include "examples/viabench/senders.h"
#include "examples/viabench/via.h"
#include "examples/viabench/via_link.h"

namespace viabench {
namespace {

using via::check;
using via::Endpoint;
using via::Failure;

via::Stream stream_of(const Case& c) {
  return {share_of_sender(c), via::window(c.size, true) / 4, true};
}

// The receiver. Senders end as those of a stream do: they ask what has arrived.
class Receiver {
 public:
  Receiver(ViaLink& link, const Case& c) : link_(link), case_(c), stream_(stream_of(c)) {
    // No more completions than receives.
    const std::uint32_t receives = stream_.window + 8;
    check(VipCreateCQ(link.nic().handle(), receives * c.others, &cq_), "VipCreateCQ");
    for (std::uint32_t i = 0; i < c.others; ++i) {
      ends_.push_back(std::make_unique<Endpoint>(link.nic(), link.attributes(),
                                                 Endpoint::Shape{c.size, c.size, receives, 64},
                                                 link.blocks(), cq_));
    }
  }
  ~Receiver() {
    ends_.clear();
    VipDestroyCQ(cq_);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void run(const Reporter& report) {
    for (const auto& end : ends_) {
      link_.accept(end->vi());
      sources_[end->vi()] = {end.get(), 0, 0, false};
    }
    ProcessorTime processor("far", true);
    processor.begin();
    const StreamTime time;
    for (const auto& end : ends_) end->send_number(0);  // all senders may begin
    std::uint32_t left = case_.others;
    while (left > 0) left -= take_one() ? 1 : 0;
    time.report(report);
    processor.report(report);
    std::uint64_t arrived = 0;
    for (const auto& [vi, source] : sources_) arrived += source.received;
    report_arrivals(report, arrived, std::uint64_t{stream_.count} * case_.others, case_.size);
  }

 private:
  struct Source {
    Endpoint* end;
    std::uint32_t received;
    std::uint32_t credited;
    bool ended;  // only its flushed receives are still to come
  };

  // True when that was the end of a sender.
  bool take_one() {
    constexpr auto kMs = static_cast<VIP_ULONG>(kSilence.count() * 1000);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN receive = VIP_FALSE;
    check(VipCQWait(cq_, kMs, &vi, &receive), "VipCQWait");
    Source& source = sources_.at(vi);
    if (source.ended) return false;
    VIP_DESCRIPTOR* const d = source.end->receive(via::milliseconds::zero());
    if (d == nullptr) return false;
    const bool last = d->CS.ImmediateData == via::kEnd;
    source.end->post_receive(d);
    if (last) {
      source.ended = true;
      source.end->make_room();
      source.end->send_report({source.received, 0});
      return true;
    }
    ++source.received;
    if (source.received - source.credited >= stream_.window / 4 ||
        source.received == stream_.count) {
      source.credited = source.received;
      source.end->make_room();
      source.end->send_number(source.received);
    }
    return false;
  }

  ViaLink& link_;
  const Case& case_;
  const via::Stream stream_;
  VIP_CQ_HANDLE cq_ = nullptr;
  std::vector<std::unique_ptr<Endpoint>> ends_;
  std::map<VIP_VI_HANDLE, Source> sources_;
};

}  // namespace

void via_senders_near(const Case& c, const Site& site, const std::string& where,
                      const Reporter& report) {
  run_senders(c, report, true, [&] {
    ViaLink link(c, site);
    link.aim(where);
    Endpoint end(link.nic(), link.attributes(), {c.size, 64, 64, kOutstanding}, link.blocks());
    link.connect(end.vi());
    VIP_DESCRIPTOR* const go = end.receive(via::kSilenceLimit);
    if (go == nullptr) throw Failure("the receiver does not say that it is ready");
    end.post_receive(go);
    via::send_stream(end, stream_of(c), [&](std::uint32_t n) { end.send_message(n, c.size); });
  });
}

void via_senders_far(const Case& c, const Site& site, const Reporter& report) {
  ViaLink link(c, site);
  Receiver receiver(link, c);
  link.listen(report);
  receiver.run(report);
  // The last report is on its way; the sender ends the connection when it has it.
  usleep(50'000);
}

}  // namespace viabench
