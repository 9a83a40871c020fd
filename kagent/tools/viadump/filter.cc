#include "kagent/tools/viadump/filter.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>

namespace viaduct::dump {
namespace {

template <class T>
bool has(const std::vector<T>& wanted, const T& value) {
  return std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

}  // namespace

bool Filter::fits(const Reading& reading, const Endpoints& endpoints) const {
  if (only_refused && reading.refusal == Refusal::kNone) return false;
  const bool any = vis.empty() && hosts.empty() && types.empty() && process == 0;
  if (any || !reading.has_header) return any;
  const wire::Decoded& decoded = reading.decoded;
  if (!types.empty() && !has(types, decoded.header.type)) return false;
  if (!hosts.empty() && !has(hosts, decoded.source) && !has(hosts, decoded.destination)) return false;
  if (!vis.empty()) {
    const Ends ends = endpoints.ends_of(decoded);
    if (!(ends.from && has(vis, *ends.from)) && !(ends.to && has(vis, *ends.to))) return false;
  }
  return process == 0 || endpoints.is_of(decoded, process);
}

bool parse_type(std::string_view word, wire::Type& out) {
  std::string upper(word);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  for (unsigned type = 1; type <= wire::kLastType; ++type) {
    out = static_cast<wire::Type>(type);
    if (upper == type_word(out)) return true;
  }
  return false;
}

bool parse_address(std::string_view text, MacAddress& out) {
  unsigned bytes[6];
  int end = 0;
  const std::string whole(text);
  const int got = std::sscanf(whole.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &bytes[0], &bytes[1], &bytes[2], &bytes[3],
                              &bytes[4], &bytes[5], &end);
  if (got != 6 || static_cast<std::size_t>(end) != whole.size()) return false;
  std::copy_n(bytes, out.size(), out.begin());
  return true;
}

}  // namespace viaduct::dump
