#include "examples/viaping/client.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "examples/common/endpoint.h"
#include "examples/common/stream.h"
#include "examples/viaping/messages.h"

namespace viaping {
namespace {

constexpr milliseconds kConnectLimit{5000};

class Client {
 public:
  Client(Nic& nic, const Options& options) : nic_(nic), options_(options) {
    wish_.bandwidth = options.bandwidth;
    wish_.block = options.wait == "block";
    wish_.size = options.size_given ? options.size : options.bandwidth ? 32768 : 4;
    wish_.count = options.count;
    wish_.operation = options.operation == "write"  ? Operation::kWrite
                      : options.operation == "read" ? Operation::kRead
                                                    : Operation::kSend;
    attributes_.ReliabilityLevel = options.reliability == "ud"   ? VIP_SERVICE_UNRELIABLE
                                   : options.reliability == "rd" ? VIP_SERVICE_RELIABLE_DELIVERY
                                                                 : VIP_SERVICE_RELIABLE_RECEPTION;
    const VIP_NIC_ATTRIBUTES& nic_says = nic.attributes();
    if ((nic_says.ReliabilityLevelSupport & attributes_.ReliabilityLevel) == 0) {
      throw Failure(
          format("the NIC does not offer %s", reliability_text(attributes_.ReliabilityLevel)));
    }
    if (wish_.size > nic_says.MaxTransferSize) {
      throw Failure(format("--size %u: a message has at most %lu bytes on this NIC", wish_.size,
                           nic_says.MaxTransferSize));
    }
    if (wish_.operation == Operation::kRead &&
        (nic_says.RDMAReadSupport & attributes_.ReliabilityLevel) == 0) {
      throw Failure(format("the NIC does not offer RDMA read with %s",
                           reliability_text(attributes_.ReliabilityLevel)));
    }
    attributes_.MaxTransferSize = std::max(wish_.size, 64u);
    // The server writes back.
    const bool written = wish_.operation == Operation::kWrite && !wish_.bandwidth;
    attributes_.EnableRdmaWrite = written ? VIP_TRUE : VIP_FALSE;
  }

  void run() {
    nic_.count_refused();
    find_host();
    if (!options_.json) {
      std::printf("viaping: %s (%s), %u messages of %u bytes, %s, %s\n", options_.host.c_str(),
                  address_text(remote_.host()).c_str(), wish_.count, wish_.size,
                  reliability_text(attributes_.ReliabilityLevel),
                  wish_.block ? "blocking" : "polling");
      std::fflush(stdout);
    }
    if (wish_.operation == Operation::kRead) {
      const std::uint32_t reads = window(wish_.size, true);
      Endpoint end(nic_, attributes_, {wish_.size, std::max(wish_.size, 64u), reads, reads},
                   wish_.block);
      connect(end);
      wish_.bandwidth ? measure_reads(end) : measure_read_latency(end);
    } else if (wish_.bandwidth) {
      const std::uint32_t sends = window(wish_.size, reliable(attributes_.ReliabilityLevel));
      Endpoint end(nic_, attributes_, {wish_.size, 64, 64, sends}, wish_.block);
      connect(end);
      measure_bandwidth(end);
    } else {
      Endpoint end(nic_, attributes_, {wish_.size, std::max(wish_.size, 64u), 16, 16}, wish_.block);
      connect(end);
      measure_latency(end);
    }
  }

 private:
  void find_host() {
    unsigned a[6];
    int end = 0;
    if (std::sscanf(options_.host.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &a[0], &a[1], &a[2], &a[3],
                    &a[4], &a[5], &end) == 6 &&
        options_.host[static_cast<std::size_t>(end)] == '\0') {
      remote_.get()->HostAddressLen = 6;
      for (int i = 0; i < 6; ++i) remote_.host()[i] = static_cast<std::uint8_t>(a[i]);
    } else {
      check(VipNSInit(nic_.handle(), nullptr), "VipNSInit");
      std::string name = options_.host;
      const VIP_RETURN result = VipNSGetHostByName(nic_.handle(), name.data(), remote_.get(), 0);
      if (result == VIP_ERROR_NAMESERVICE) {
        throw Failure("no host on the network answers to the name \"" + name + "\"");
      }
      check(result, "VipNSGetHostByName");
      VipNSShutdown(nic_.handle());
    }
    remote_.set_discriminator(kServerDiscriminator, sizeof kServerDiscriminator - 1);
  }

  void connect(Endpoint& end) {
    Address local = nic_.address();
    std::array<std::uint8_t, Wish::kBytes> wish;
    wish_.encode(wish.data());
    local.set_discriminator(wish.data(), wish.size());
    VIP_VI_ATTRIBUTES theirs{};
    const VIP_RETURN result =
        VipConnectRequest(end.vi(), local.get(), remote_.get(),
                          static_cast<VIP_ULONG>(kConnectLimit.count()), &theirs);
    const char* const host = options_.host.c_str();
    switch (result) {
      case VIP_SUCCESS:
        return;
      case VIP_NO_MATCH:
        throw Failure(format("no `viaping --server' waits on %s", host));
      case VIP_TIMEOUT:
        throw Failure(format("%s does not answer", host));
      case VIP_REJECT:
        throw Failure(format("the server on %s refused", host));
      default:
        throw Failure(format("connecting to %s: %s", host, return_text(result)));
    }
  }

  // The time between message `n` and the one before it; a signal ends it.
  void rest(std::uint32_t n) const {
    if (options_.interval_ms == 0 || n == 0) return;
    const timespec time{options_.interval_ms / 1000, options_.interval_ms % 1000 * 1000000l};
    nanosleep(&time, nullptr);
  }

  void measure_latency(Endpoint& end) {
    const bool may_lose = !reliable(attributes_.ReliabilityLevel);
    const bool writes = wish_.operation == Operation::kWrite;
    const Target target = writes ? await_target(end) : Target{};
    if (writes) end.send_target(wish_.operation);
    const auto verify = [&](const VIP_DESCRIPTOR* d, std::uint32_t number) {
      if (writes) {
        end.verify(end.buffer(slot_of(number)), number, wish_.size);
      } else {
        end.verify(d, number, wish_.size);
      }
    };
    const std::uint32_t rounds = wish_.count + wish_.warm_up();
    std::vector<float> samples;
    samples.reserve(wish_.count);
    std::uint32_t lost = 0;
    std::uint32_t lost_in_a_row = 0;
    for (std::uint32_t n = 0; n < rounds && !stopped; ++n) {
      if (end.free_sends() == 0) end.make_room();
      rest(n);
      const Clock::time_point start = Clock::now();
      if (writes) {
        end.write_message(n, wish_.size, target, slot_of(n));
      } else {
        end.send_message(n, wish_.size);
      }
      VIP_DESCRIPTOR* d;
      for (;;) {
        d = end.receive(may_lose ? kLossLimit : kSilenceLimit);
        // The answer to a message that was given up as lost may still come.
        if (d == nullptr || d->CS.ImmediateData >= n || !may_lose) break;
        verify(d, d->CS.ImmediateData);
        end.post_receive(d);
      }
      const Clock::time_point finish = Clock::now();
      if (d == nullptr) {
        if (stopped) break;
        if (!may_lose) throw ConnectionLost(format("no answer to message %u in ten seconds", n));
        ++lost;
        if (++lost_in_a_row >= 20) throw ConnectionLost("twenty messages in a row were lost");
        continue;
      }
      lost_in_a_row = 0;
      if (d->CS.ImmediateData != n) {
        throw Failure(format("message %u came instead of %u", d->CS.ImmediateData, n));
      }
      verify(d, n);
      end.post_receive(d);
      end.reap();
      if (n >= rounds - wish_.count) {
        samples.push_back(std::chrono::duration<float, std::micro>(finish - start).count() / 2);
      }
    }
    if (stopped) throw Failure("stopped");
    if (samples.empty()) throw Failure("all messages were lost");
    print_times(samples, "one way", "one_way_us");
    tell_lost(lost, rounds, end.refused());
  }

  // A read goes there and comes back: there is no half of it.
  void measure_read_latency(Endpoint& end) {
    const Target target = await_target(end);
    const std::uint32_t rounds = wish_.count + wish_.warm_up();
    std::vector<float> samples;
    samples.reserve(wish_.count);
    for (std::uint32_t n = 0; n < rounds; ++n) {
      rest(n);
      if (stopped) throw Failure("stopped");
      const Clock::time_point start = Clock::now();
      end.read_message(n, wish_.size, target, 0);
      end.await_send();
      const Clock::time_point finish = Clock::now();
      end.verify(end.buffer(0), n, wish_.size);
      if (n >= rounds - wish_.count) {
        samples.push_back(std::chrono::duration<float, std::micro>(finish - start).count());
      }
    }
    end.send_number(wish_.count);
    if (end.receive(kSilenceLimit) == nullptr) throw ConnectionLost("the server says nothing");
    print_times(samples, "read", "read_us");
  }

  // In microseconds. Sorts the samples, of which there is one at least.
  void print_times(std::vector<float>& samples, const char* label, const char* key) const {
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double part) {
      return static_cast<double>(
          samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1) + 0.5)]);
    };
    if (options_.json) {
      std::printf(
          "{\"size\":%u,\"count\":%zu,\"%s\":{\"min\":%.3f,\"median\":%.3f,"
          "\"p99\":%.3f,\"max\":%.3f}}\n",
          wish_.size, samples.size(), key, at(0), at(0.5), at(0.99), at(1));
    } else {
      std::printf("%s: min %.2f  median %.2f  p99 %.2f  max %.2f us\n", label, at(0), at(0.5),
                  at(0.99), at(1));
    }
  }

  static Target await_target(Endpoint& end) {
    VIP_DESCRIPTOR* const d = end.receive(kSilenceLimit);
    if (d == nullptr) throw ConnectionLost("the server does not say where its memory is");
    if (d->CS.Length != Target::kBytes) throw Failure("the server's message is malformed");
    const Target target = Target::decode(end.data(d));
    end.post_receive(d);
    return target;
  }

  void measure_reads(Endpoint& end) {
    const Target target = await_target(end);
    const std::uint32_t limit = window(wish_.size, true);
    const Clock::time_point start = Clock::now();
    for (std::uint32_t posted = 0, done = 0; done < wish_.count; ++done) {
      if (stopped) throw Failure("stopped");
      for (; posted < wish_.count && posted - done < limit; ++posted) {
        end.read_message(posted, wish_.size, target, posted % limit);
      }
      end.await_send();
      end.verify(end.buffer(done % limit), done, wish_.size);
    }
    const std::chrono::duration<double> whole = Clock::now() - start;
    end.send_number(wish_.count);
    if (end.receive(kSilenceLimit) == nullptr) throw ConnectionLost("the server says nothing");
    print_rate(wish_.count, wish_.count / whole.count());
  }

  void measure_bandwidth(Endpoint& end) {
    const std::uint32_t limit = window(wish_.size, reliable(attributes_.ReliabilityLevel));
    const bool writes = wish_.operation == Operation::kWrite;
    const Target target = writes ? await_target(end) : Target{};
    const Clock::time_point start = Clock::now();
    const Report report = send_stream(
        end, {wish_.count, limit, reliable(attributes_.ReliabilityLevel)}, [&](std::uint32_t n) {
          if (writes) {
            end.write_message(n, wish_.size, target, n % limit);
          } else {
            end.send_message(n, wish_.size);
          }
        });
    const std::chrono::duration<double> whole = Clock::now() - start;
    // n messages have n - 1 gaps between them; a single one has only the whole time to offer.
    const bool gaps = report.received > 1 && report.nanoseconds > 0;
    const double seconds = gaps ? static_cast<double>(report.nanoseconds) / 1e9 : whole.count();
    print_rate(report.received, (report.received - (gaps ? 1 : 0)) / seconds);
    tell_lost(wish_.count - report.received, wish_.count, report.refused);
  }

  void print_rate(std::uint32_t count, double rate) const {
    const double megabits = rate * wish_.size * 8 / 1e6;
    if (options_.json) {
      std::printf("{\"size\":%u,\"count\":%u,\"mbit_s\":%.3f,\"messages_s\":%.1f}\n", wish_.size,
                  count, megabits, rate);
    } else {
      std::printf("bandwidth: %.1f Mb/s, %.0f messages/s\n", megabits, rate);
    }
  }

  // `refused`: so many at least found no receive posted; the library tells of 256 at a time.
  static void tell_lost(std::uint32_t lost, std::uint32_t of, std::uint32_t refused) {
    if (lost == 0) return;
    std::string why = "dropped on their way, by the link or by a queue below VIA that was full";
    if (refused >= lost) {
      why = "the receiver's queue had no receive posted, and Unreliable Delivery does not wait for one";
    } else if (refused > 0) {
      why = format("for %u at least the receiver's queue had no receive posted", refused);
    }
    std::fprintf(stderr,
                 "viaping: %u of %u messages were lost: %s\n"
                 "viaping: the rows \"drop\" of `viad --counters' on both hosts tell more\n",
                 lost, of, why.c_str());
  }

  Nic& nic_;
  const Options& options_;
  Wish wish_;
  VIP_VI_ATTRIBUTES attributes_{};
  Address remote_;
};

}  // namespace

void run_client(Nic& nic, const Options& options) { Client(nic, options).run(); }

}  // namespace viaping
