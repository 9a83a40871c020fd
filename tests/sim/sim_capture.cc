#include "tests/sim/sim_capture.h"

#include <cstdlib>
#include <string>

namespace viaduct {
namespace {

unsigned networks = 0;

std::string host_text(std::uint32_t host) {
  return host == SimCapture::kNobody ? "nobody" : "host " + std::to_string(host);
}

}  // namespace

std::unique_ptr<SimCapture> SimCapture::open() {
  const char* const wanted = std::getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0') return nullptr;
  std::string name = wanted;
  if (++networks > 1) name += "." + std::to_string(networks);
  std::FILE* const file = std::fopen(name.c_str(), "wb");
  if (file == nullptr) {
    std::perror(name.c_str());
    std::abort();
  }
  std::setvbuf(file, nullptr, _IONBF, 0);
  return std::unique_ptr<SimCapture>(new SimCapture(file));
}

SimCapture::~SimCapture() { std::fclose(file_); }

void SimCapture::add_host(std::uint32_t number, const MacAddress& address) {
  char text[18];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", address[0], address[1], address[2], address[3],
                address[4], address[5]);
  writer_.add_interface({host_text(number) + ", " + text, "", 0});
}

void SimCapture::add_frame(std::uint64_t time_ns, std::uint32_t from, std::uint32_t to, const char* lost,
                           std::span<const std::byte> frame) {
  dump::Packet packet;
  packet.time_ns = time_ns;
  packet.interface = to != kNobody ? to : from;
  packet.length = static_cast<std::uint32_t>(frame.size());
  packet.direction = to != kNobody ? dump::Direction::kIn : dump::Direction::kOut;
  packet.bytes.assign(frame.begin(), frame.end());
  packet.comment = host_text(from) + " to " + host_text(to);
  if (lost != nullptr) packet.comment += std::string(", lost: ") + lost;
  writer_.write(packet);
}

}  // namespace viaduct
