#include <cstdio>
#include <thread>
#include <vector>

#include "tests/scale/link.h"
#include "tests/scale/modes.h"
#include "tests/scale/protocol.h"

namespace scale {
namespace {

void come_and_go(const Nic& nic, std::uint32_t discriminator, std::uint32_t count) {
  const VIP_VI_HANDLE vi = nic.create_vi();
  for (std::uint32_t i = 0; i < count; ++i) {
    nic.accept(vi, discriminator);
    while (state_of(vi) == VIP_STATE_CONNECTED) std::this_thread::yield();
    must(VipDisconnect(vi), "VipDisconnect");
  }
  must(VipDestroyVi(vi), "VipDestroyVi");
}

std::uint32_t connected(const std::vector<VIP_VI_HANDLE>& vis) {
  std::uint32_t count = 0;
  for (const VIP_VI_HANDLE vi : vis) count += state_of(vi) == VIP_STATE_CONNECTED ? 1 : 0;
  return count;
}

// The peers' connections end one after the other: silence is what is expected here.
void ignore(VIP_PVOID, VIP_ERROR_DESCRIPTOR*) {}

}  // namespace

int serve(const Options& options) {
  const Nic nic(options.device);
  must(VipErrorCallback(nic.get(), nullptr, ignore), "VipErrorCallback");
  Link link(nic);
  std::printf("waiting\n");
  std::fflush(stdout);
  nic.accept(link.vi(), kControl);
  std::vector<VIP_VI_HANDLE> others;
  std::uint32_t threads = 1;
  for (;;) {
    const std::uint32_t command = link.receive();
    const std::uint32_t number = command & kNumberMask;
    std::uint32_t answer = command;
    switch (command & ~kNumberMask) {
      case kAccept:
        for (std::uint32_t i = 0; i < number; ++i) {
          others.push_back(nic.create_vi());
          nic.accept(others.back(), kOthers);
        }
        break;
      case kDrop: drop(others); break;
      case kThreads: threads = number; break;
      case kComeAndGo: {
        std::vector<std::jthread> accepting;
        for (std::uint32_t t = 0; t < threads; ++t) {
          accepting.emplace_back([&nic, t, number] { come_and_go(nic, kOfThread + t, number); });
        }
        break;
      }
      case kAlive: answer = connected(others); break;
      case kEnd: link.send(command); return 0;
      default: break;
    }
    link.send(answer);
  }
}

}  // namespace scale
