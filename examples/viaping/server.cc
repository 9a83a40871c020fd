#include "examples/viaping/server.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "examples/common/endpoint.h"
#include "examples/common/stream.h"
#include "examples/viaping/messages.h"

namespace viaping {
namespace {

constexpr std::size_t kMaxClients = 64;  // served at once

class Server {
 public:
  explicit Server(Nic& nic) : nic_(nic) {}

  void run() {
    nic_.count_refused();
    Address local = nic_.address();
    local.set_discriminator(kServerDiscriminator, sizeof kServerDiscriminator - 1);
    std::printf("viaping: waiting on %s (%s)\n", nic_.attributes().Name,
                address_text(nic_.attributes().LocalNicAddress).c_str());
    std::fflush(stdout);
    try {
      while (!stopped) accept_one(local);
    } catch (...) {
      stopped = true;
      join(true);
      throw;
    }
    join(true);
  }

 private:
  struct Progress {
    std::uint32_t served = 0;
    bool finished = false;  // the client has got all that it wanted
  };

  struct Client {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };

  void accept_one(Address& local) {
    Address remote;
    remote.get()->HostAddressLen = nic_.attributes().NicAddressLen;
    remote.get()->DiscriminatorLen = nic_.attributes().MaxDiscriminatorLen;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    const VIP_RETURN result =
        VipConnectWait(nic_.handle(), local.get(), static_cast<VIP_ULONG>(kSlice.count()),
                       remote.get(), &attributes, &connection);
    join(false);
    if (result == VIP_TIMEOUT) return;
    if (result != VIP_SUCCESS) {
      throw Failure(format("waiting for clients: %s", return_text(result)));
    }
    const std::string name = address_text(remote.host());
    Wish wish;
    if (!Wish::decode(remote.discriminator(), remote.get()->DiscriminatorLen, wish)) {
      say(name, "is not a viaping of this version");
      VipConnectReject(connection);
      return;
    }
    if (clients_.size() >= kMaxClients) {
      say(name, format("refused: %zu clients are served already", kMaxClients));
      VipConnectReject(connection);
      return;
    }
    auto done = std::make_shared<std::atomic<bool>>(false);
    clients_.push_back({std::thread([=, this] {
                          serve(name, wish, attributes, connection);
                          *done = true;
                        }),
                        done});
  }

  void join(bool all) {
    for (auto it = clients_.begin(); it != clients_.end();) {
      if (all || *it->done) {
        it->thread.join();
        it = clients_.erase(it);
      } else {
        ++it;
      }
    }
  }

  static void say(const std::string& client, const std::string& text) {
    std::printf("viaping: %s: %s\n", client.c_str(), text.c_str());
    std::fflush(stdout);
  }

  void serve(const std::string& name, const Wish& wish, const VIP_VI_ATTRIBUTES& remote,
             VIP_CONN_HANDLE connection) {
    Progress progress;
    bool accepted = false;
    try {
      VIP_VI_ATTRIBUTES attributes{};
      attributes.ReliabilityLevel = remote.ReliabilityLevel;
      attributes.MaxTransferSize = remote.MaxTransferSize;
      attributes.EnableRdmaWrite = wish.operation == Operation::kWrite ? VIP_TRUE : VIP_FALSE;
      attributes.EnableRdmaRead = wish.operation == Operation::kRead ? VIP_TRUE : VIP_FALSE;
      // Room for the window and for the "end" behind it.
      const std::uint32_t receives = window(wish.size, reliable(remote.ReliabilityLevel)) + 8;
      const std::uint32_t receive_size = std::max(wish.size, Target::kBytes);
      Endpoint end(nic_, attributes, {wish.size, receive_size, receives, 64}, wish.block);
      check(VipConnectAccept(connection, end.vi()), "VipConnectAccept");
      accepted = true;
      if (wish.operation != Operation::kSend) end.send_target(wish.operation);
      if (wish.operation == Operation::kRead) {
        be_read(end, progress);
      } else if (wish.bandwidth) {
        take(end, wish, reliable(remote.ReliabilityLevel), progress);
      } else {
        echo(end, wish, reliable(remote.ReliabilityLevel), progress);
      }
    } catch (const ConnectionLost& lost) {
      if (progress.finished) {
        say(name,
            format("%u messages of %u bytes, %s, %s", progress.served, wish.size,
                   reliability_text(remote.ReliabilityLevel), wish.block ? "blocking" : "polling"));
      } else {
        say(name, format("left after %u messages: %s", progress.served, lost.what()));
      }
    } catch (const std::exception& error) {
      if (!accepted) VipConnectReject(connection);
      say(name, format("given up after %u messages: %s", progress.served, error.what()));
    }
  }

  static void echo(Endpoint& end, const Wish& wish, bool reliable, Progress& progress) {
    const bool writes = wish.operation == Operation::kWrite;
    Target target;
    if (writes) {
      VIP_DESCRIPTOR* const d = next_message(end);
      if (d->CS.Length != Target::kBytes) throw Failure("does not say where its memory is");
      target = Target::decode(end.data(d));
      end.post_receive(d);
    }
    std::uint32_t expected = 0;
    for (;;) {
      VIP_DESCRIPTOR* const d = next_message(end);
      const std::uint32_t number = d->CS.ImmediateData;
      if (number != expected && (reliable || number < expected)) {
        throw Failure(format("message %u came instead of %u", number, expected));
      }
      if (end.free_sends() == 0) end.make_room();
      if (writes) {
        end.verify(end.buffer(slot_of(number)), number, wish.size);
        end.write_message(number, wish.size, target, slot_of(number));
      } else {
        end.verify(d, number, wish.size);
        end.send_message(number, wish.size);
      }
      end.post_receive(d);
      end.reap();
      expected = number + 1;
      ++progress.served;
      if (expected == wish.count + wish.warm_up()) progress.finished = true;
    }
  }

  // The client reads; we hear of it only when it has finished.
  static void be_read(Endpoint& end, Progress& progress) {
    for (;;) {
      VIP_DESCRIPTOR* const d = next_message(end);
      progress.served = d->CS.ImmediateData;
      progress.finished = true;
      end.post_receive(d);
      end.make_room();
      end.send_report({progress.served, 0, 0});
    }
  }

  static void take(Endpoint& end, const Wish& wish, bool reliable, Progress& progress) {
    const std::uint32_t limit = window(wish.size, reliable);
    take_stream(
        end, {wish.count, limit, reliable},
        [&](const VIP_DESCRIPTOR* d, std::uint32_t number) {
          if (wish.operation == Operation::kWrite) {
            end.verify(end.buffer(number % limit), number, wish.size);
          } else {
            end.verify(d, number, wish.size);
          }
          ++progress.served;
        },
        [&](const Report&) { progress.finished = true; });
  }

  Nic& nic_;
  std::vector<Client> clients_;
};

}  // namespace

void run_server(Nic& nic) { Server(nic).run(); }

}  // namespace viaping
