#include "sovia/launcher/sockets.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "sovia/launcher/counters_reader.h"
#include "sovia/launcher/json_text.h"

namespace viaduct::sovia::launcher {
namespace {

namespace fs = std::filesystem;

struct Addresses {
  std::string local, peer;
};
using ByInode = std::map<std::string, Addresses>;

struct Row {
  int process, descriptor;
  std::string program, way, reason, text;
  Addresses addresses;
};

// "0100007F:1F90", words of the address in the order of this machine, as an address and a port.
std::string address_text(const std::string& hex) {
  const std::size_t colon = hex.find(':');
  if (colon != 8 && colon != 32) return "-";
  std::uint32_t words[4] = {};
  for (std::size_t i = 0; i < colon / 8; ++i) {
    words[i] = static_cast<std::uint32_t>(std::stoul(hex.substr(8 * i, 8), nullptr, 16));
  }
  char text[INET6_ADDRSTRLEN];
  inet_ntop(colon == 8 ? AF_INET : AF_INET6, words, text, sizeof text);
  const std::string port = std::to_string(std::stoul(hex.substr(colon + 1), nullptr, 16));
  return colon == 8 ? std::string(text) + ":" + port : "[" + std::string(text) + "]:" + port;
}

// The TCP sockets of the process's network namespace.
ByInode addresses_of(int process) {
  ByInode out;
  for (const char* const name : {"tcp", "tcp6"}) {
    std::ifstream file("/proc/" + std::to_string(process) + "/net/" + name);
    std::string line;
    std::getline(file, line);  // the titles
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, peer, skipped, inode;
      words >> number >> local >> peer;
      for (int i = 0; i < 6; ++i) words >> skipped;
      if (words >> inode) out[inode] = {address_text(local), address_text(peer)};
    }
  }
  return out;
}

// The inode of the socket that a descriptor is; empty if it is none any more.
std::string inode_of(int process, int descriptor) {
  std::error_code error;
  const std::string target =
      fs::read_symlink("/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor), error);
  constexpr const char kBegin[] = "socket:[";
  if (error || target.rfind(kBegin, 0) != 0) return "";
  return target.substr(std::strlen(kBegin), target.size() - std::strlen(kBegin) - 1);
}

const char* word_of(counters::Way way) {
  switch (way) {
    case counters::Way::kKernel: return "kernel";
    case counters::Way::kAsked: return "asked";
    case counters::Way::kLane: return "lane";
    case counters::Way::kListens: return "listens";
    case counters::Way::kNone: break;
  }
  return "?";
}

std::vector<Row> rows_of(const ProcessCounters& process, const ByInode& addresses) {
  std::vector<Row> out;
  for (const SocketRow& shown : process.sockets) {
    const std::string inode = inode_of(process.process, shown.descriptor);
    if (inode.empty()) continue;
    Row row{process.process, shown.descriptor, process.program, word_of(shown.way), "", "", {"-", "-"}};
    if (shown.reason != Reason::kNone) row.reason = counters::name_of(shown.reason), row.text = text_of(shown.reason);
    if (const auto it = addresses.find(inode); it != addresses.end()) row.addresses = it->second;
    out.push_back(std::move(row));
  }
  return out;
}

void print_table(const std::vector<Row>& rows, std::ostream& out) {
  const std::vector<std::string> titles{"PID", "PROGRAM", "FD", "LOCAL", "PEER", "WAY"};
  std::vector<std::vector<std::string>> lines{titles};
  for (const Row& row : rows) {
    lines.push_back({std::to_string(row.process), row.program, std::to_string(row.descriptor), row.addresses.local,
                     row.addresses.peer, row.way});
  }
  std::vector<std::size_t> widths(titles.size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (std::size_t n = 0; n < lines.size(); ++n) {
    std::string text;
    for (std::size_t i = 0; i < lines[n].size(); ++i) {
      text += lines[n][i] + std::string(widths[i] - lines[n][i].size() + 2, ' ');
    }
    text += n == 0 ? "WHY" : rows[n - 1].text;
    out << text.substr(0, text.find_last_not_of(' ') + 1) << "\n";
  }
}

void print_json(const std::vector<Row>& rows, std::ostream& out) {
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out << (i == 0 ? "\n" : ",\n") << "  {\"pid\": " << row.process << ", \"program\": " << quoted(row.program)
        << ", \"descriptor\": " << row.descriptor << ", \"local\": " << quoted(row.addresses.local)
        << ", \"peer\": " << quoted(row.addresses.peer) << ", \"way\": " << quoted(row.way)
        << ", \"reason\": " << (row.reason.empty() ? "null" : quoted(row.reason))
        << ", \"text\": " << quoted(row.text) << "}";
  }
  out << "\n]\n";
}

}  // namespace

int show_sockets(const SocketsRequest& request, std::ostream& out) {
  const std::vector<ProcessCounters> all =
      request.processes.empty() ? read_all_counters() : read_those(request.processes);
  std::map<std::string, ByInode> of_namespace;  // each is read once
  std::vector<Row> rows;
  for (const ProcessCounters& process : all) {
    std::error_code error;
    const std::string name = fs::read_symlink("/proc/" + std::to_string(process.process) + "/ns/net", error);
    auto it = of_namespace.find(name);
    if (it == of_namespace.end()) it = of_namespace.emplace(name, addresses_of(process.process)).first;
    const std::vector<Row> more = rows_of(process, it->second);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (request.json) {
    print_json(rows, out);
  } else if (!rows.empty()) {
    print_table(rows, out);
  }
  return rows.empty() ? 1 : 0;
}

}  // namespace viaduct::sovia::launcher
