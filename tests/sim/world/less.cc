#include "tests/sim/world/less.h"

#include <charconv>
#include <string_view>

namespace viaduct::sim {
namespace {

constexpr struct {
  std::string_view name;
  bool Less::* member;
} kParts[] = {{"trains", &Less::trains},
              {"rings", &Less::rings},
              {"granted", &Less::granted},
              {"faults", &Less::faults},
              {"crimes", &Less::crimes}};
constexpr std::string_view kEvent = "event";

bool read_number(std::string_view text, unsigned& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out != 0;
}

bool read_part(std::string_view name, Less& out) {
  for (const auto& part : kParts) {
    if (name == part.name) return out.*part.member = true;
  }
  if (!name.starts_with(kEvent)) return false;
  unsigned number = 0;
  name.remove_prefix(kEvent.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number > 63) return false;
  out.events |= 1ull << number;
  return true;
}

// Calls read(piece) for each piece of the text; false as soon as that says so.
template <class Read>
bool each(std::string_view text, char separator, Read&& read) {
  for (;;) {
    const std::size_t at = text.find(separator);
    if (!read(text.substr(0, at))) return false;
    if (at == text.npos) return true;
    text.remove_prefix(at + 1);
  }
}

bool read_item(std::string_view item, Less& out) {
  const std::size_t equals = item.find('=');
  if (equals == item.npos) return false;
  const std::string_view name = item.substr(0, equals);
  std::string_view value = item.substr(equals + 1);
  if (name == "hosts") return read_number(value, out.hosts) && out.hosts >= 2;
  if (name == "jobs") return read_number(value, out.jobs);
  if (name == "without") return each(value, '+', [&](std::string_view part) { return read_part(part, out); });
  if (name != "messages" || !value.starts_with("1/")) return false;
  value.remove_prefix(2);
  return read_number(value, out.messages);
}

}  // namespace

bool read_less(const std::string& text, Less& out) {
  return each(text, ',', [&](std::string_view item) { return read_item(item, out); });
}

std::string text_of(const Less& less) {
  std::string out, without;
  const auto add = [](std::string& to, char separator, const std::string& item) {
    if (!to.empty()) to += separator;
    to += item;
  };
  if (less.hosts != ~0u) add(out, ',', "hosts=" + std::to_string(less.hosts));
  if (less.jobs != ~0u) add(out, ',', "jobs=" + std::to_string(less.jobs));
  if (less.messages != 1) add(out, ',', "messages=1/" + std::to_string(less.messages));
  for (const auto& part : kParts) {
    if (less.*part.member) add(without, '+', std::string(part.name));
  }
  for (unsigned e = 0; e < 64; ++e) {
    if ((less.events >> e & 1) != 0) add(without, '+', std::string(kEvent) + std::to_string(e));
  }
  if (!without.empty()) add(out, ',', "without=" + without);
  return out;
}

}  // namespace viaduct::sim
