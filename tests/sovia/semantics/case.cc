#include "case.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "calls.h"

namespace semantics {
namespace {

std::vector<Registered>& registry() {
  static std::vector<Registered> cases;
  return cases;
}

sockaddr_storage any_address(int family) {
  sockaddr_storage address{};  // the address 0 is "any" in both families
  address.ss_family = static_cast<sa_family_t>(family);
  return address;
}

void set_buffers(int socket, const PairOptions& options) {
  if (options.send_buffer > 0) set_option(socket, SOL_SOCKET, SO_SNDBUF, options.send_buffer);
  if (options.receive_buffer > 0) set_option(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer);
}

}  // namespace

void Case::note(std::string_view what, long result) const {
  const int error = errno;
  say(std::string(what) + ": " + (result == -1 ? errno_name(error) : std::to_string(result)));
}

void Case::data(std::string_view what, std::string_view bytes) const {
  say(std::string(what) + ": " + shown(bytes));
}

Fd Case::listen(const PairOptions& options, int backlog) const {
  Fd listener(must(socket(options.family, SOCK_STREAM, 0), "socket"));
  set_buffers(listener, options);
  sockaddr_storage address = any_address(options.family);
  socklen_t size = size_of(address);
  must(bind(listener, reinterpret_cast<sockaddr*>(&address), size), "bind");
  must(::listen(listener, backlog), "listen");
  must(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  // The port stands at the same place in both families.
  tell(std::to_string(ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port)));
  return listener;
}

sockaddr_storage Case::hear_address(int family) const {
  const std::uint16_t port = htons(static_cast<std::uint16_t>(std::stoul(hear())));
  sockaddr_storage address{};
  if (family == AF_INET6) {
    auto* const six = reinterpret_cast<sockaddr_in6*>(&address);
    six->sin6_addr = settings_.server6;
    six->sin6_port = port;
  } else {
    auto* const four = reinterpret_cast<sockaddr_in*>(&address);
    four->sin_addr = settings_.server;
    four->sin_port = port;
  }
  address.ss_family = static_cast<sa_family_t>(family);
  return address;
}

Fd Case::cold_pair(const PairOptions& options) const {
  if (server()) {
    const Fd listener = listen(options);
    return Fd(must(accept(listener, nullptr, nullptr), "accept"));
  }
  const sockaddr_storage to = hear_address(options.family);
  Fd made(must(socket(options.family, SOCK_STREAM, 0), "socket"));
  set_buffers(made, options);
  must(connect(made, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
  return made;
}

Fd Case::pair(const PairOptions& options) const {
  Fd made = cold_pair(options);
  warm_as_asked(made);
  return made;
}

std::vector<Fd> Case::pairs(std::size_t n) const {
  std::vector<Fd> made;
  if (server()) {
    const Fd listener = listen({}, static_cast<int>(n));
    for (std::size_t i = 0; i < n; ++i) {
      made.emplace_back(must(accept(listener, nullptr, nullptr), "accept"));
    }
  } else {
    const sockaddr_storage to = hear_address();
    for (std::size_t i = 0; i < n; ++i) {
      made.emplace_back(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
      must(connect(made.back(), reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
    }
  }
  for (const Fd& each : made) warm_as_asked(each);
  return made;
}

std::string Case::name_of(const sockaddr* address, socklen_t size) const {
  if (size < sizeof(sa_family_t)) return "no address";
  const auto role = [](const void* bytes, std::size_t n, const void* client, const void* server,
                       const void* loopback, const void* any) -> std::string {
    if (std::memcmp(bytes, client, n) == 0) return "client";
    if (std::memcmp(bytes, server, n) == 0) return "server";
    if (std::memcmp(bytes, loopback, n) == 0) return "loopback";
    if (std::memcmp(bytes, any, n) == 0) return "any";
    return "somebody";
  };
  const in_addr loopback{htonl(INADDR_LOOPBACK)}, any{INADDR_ANY};
  const auto four = [&](const void* bytes) {
    return role(bytes, 4, &settings_.client, &settings_.server, &loopback, &any);
  };
  const auto port = [](in_port_t number) { return number == 0 ? ":0" : ":PORT"; };
  if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    const auto* const in = reinterpret_cast<const sockaddr_in*>(address);
    return four(&in->sin_addr) + port(in->sin_port);
  }
  if (address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    const auto* const in = reinterpret_cast<const sockaddr_in6*>(address);
    const auto* const bytes = &in->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(bytes)) {
      return "mapped " + four(reinterpret_cast<const char*>(bytes) + 12) + port(in->sin6_port);
    }
    return "six " +
           role(bytes, 16, &settings_.client6, &settings_.server6, &in6addr_loopback,
                &in6addr_any) +
           port(in->sin6_port);
  }
  return "family " + std::to_string(address->sa_family) + ", " + std::to_string(size) + " bytes";
}

const std::vector<Registered>& all_cases() {
  std::vector<Registered>& cases = registry();
  const auto before = [](const Registered& x, const Registered& y) { return x.name < y.name; };
  if (!std::is_sorted(cases.begin(), cases.end(), before)) {
    std::sort(cases.begin(), cases.end(), before);
  }
  return cases;
}

bool register_case(const char* subject, const char* name, Body body, unsigned forms) {
  const std::string full = std::string(subject) + "." + name;
  const bool alone = (forms & kAlone) != 0;
  std::vector<Registered>& cases = registry();
  if ((forms & kEach) == 0) cases.push_back({full, body, Warmth::kCold, alone});
  if ((forms & kCold) != 0) cases.push_back({full + ".cold", body, Warmth::kCold, alone});
  if ((forms & kRising) != 0) cases.push_back({full + ".rising", body, Warmth::kRising, alone});
  if ((forms & kWarm) != 0) cases.push_back({full + ".warm", body, Warmth::kWarm, alone});
  return true;
}

}  // namespace semantics
