// port_tool IF KIND ROLE BYTES COUNT: frames between two ports, for tests and for measuring a port
// against raw AF_XDP. KIND: tcx, xdp-native, xdp-generic, pcap, auto. ROLE: ping and pong send one frame
// back and forth and check it (ping prints the one-way time in us); blast and sink send one way
// without looking at the payload (sink prints frames received and Gb/s); hold opens the port, says so
// and waits for a signal, or until the interface is gone.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kagent/contract/wire.h"
#include "xdp/open_port.h"

namespace {

using namespace viaduct;

volatile sig_atomic_t stop = 0;

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

void send(Port& port, std::uint32_t bytes, std::uint64_t number, bool fill) {
  Frame frame;
  while (port.reserve({&frame, 1}) == 0) {
    if (stop) std::exit(1);
    port.flush();
  }
  std::memcpy(frame.data, kBroadcast.data(), 6);
  std::memcpy(frame.data + 6, port.address().data(), 6);
  wire::store16(frame.data + 12, wire::kDefaultEtherType);
  wire::store64(frame.data + 14, number);
  for (std::uint32_t i = 22; fill && i < bytes; ++i) {
    frame.data[i] = static_cast<std::byte>(number + i);
  }
  frame.length = bytes;
  port.submit({&frame, 1});
}

void wait(Port& port, std::uint32_t bytes, std::uint64_t number) {
  Frame frame;
  while (port.receive({&frame, 1}) == 0) {
    if (stop) std::exit(1);
  }
  bool right = frame.length == bytes && wire::load64(frame.data + 14) == number;
  for (std::uint32_t i = 22; right && i < bytes; ++i) {
    right = frame.data[i] == static_cast<std::byte>(number + i);
  }
  port.release({&frame, 1});
  if (!right) {
    std::fprintf(stderr, "frame %llu is not the one that was sent\n",
                 static_cast<unsigned long long>(number));
    std::exit(1);
  }
}

int run(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s IF KIND ping|pong|blast|sink|hold BYTES COUNT\n", argv[0]);
    return 2;
  }
  PortOptions options;
  options.interface = argv[1];
  const std::string kind = argv[2], role = argv[3];
  options.kind = kind == "tcx"           ? PortKind::kTcx
                 : kind == "xdp-native"  ? PortKind::kXdpNative
                 : kind == "xdp-generic" ? PortKind::kXdpGeneric
                 : kind == "pcap"        ? PortKind::kPcap
                                         : PortKind::kAuto;
  options.note = [](std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  };
  const auto bytes = static_cast<std::uint32_t>(std::atoi(argv[4]));
  const auto count = static_cast<std::uint64_t>(std::atoll(argv[5]));
  const auto port = open_port(options);
  if (role == "hold") {
    std::printf("open %s\n", port->mode().c_str());
    std::fflush(stdout);
    while (!stop && port->alive()) {
      port->counters();
      usleep(100'000);
    }
    if (!stop) std::printf("gone\n");
    return 0;
  }
  if (role == "ping") {
    double start = 0;
    usleep(500'000);
    for (std::uint64_t i = 0; i < count + 1000; ++i) {
      if (i == 1000) start = now_us();
      send(*port, bytes, i, true);
      port->flush();
      wait(*port, bytes, i);
    }
    std::printf("%.3f\n", (now_us() - start) / static_cast<double>(count) / 2);
  } else if (role == "pong") {
    for (std::uint64_t i = 0; i < count + 1000; ++i) {
      wait(*port, bytes, i);
      send(*port, bytes, i, true);
      port->flush();
    }
  } else if (role == "blast") {
    usleep(500'000);
    for (std::uint64_t i = 0; i < count; ++i) {
      send(*port, bytes, i, false);
      if (i % 32 == 31) port->flush();
    }
    port->flush();
    usleep(100'000);
  } else {
    std::uint64_t got = 0;
    double first = 0, last = now_us();
    Frame frames[64];
    while (got < count && !stop) {
      const std::size_t n = port->receive(frames);
      const double at = now_us();
      if (n == 0) {
        if (at - last > (got == 0 ? 1e7 : 3e5)) break;
        continue;
      }
      if (got == 0) first = at;
      last = at;
      got += n;
      port->release({frames, n});
    }
    std::printf("%llu frames %.3f Gb/s\n", static_cast<unsigned long long>(got),
                static_cast<double>(got) * bytes * 8 / (last - first) / 1e3);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { stop = 1; });
  signal(SIGINT, [](int) { stop = 1; });
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
