#include "kagent/tools/viadump/extcap.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace viaduct::dump {
namespace {

constexpr std::string_view kPrefix = "viaduct-";
constexpr int kEthernetType = 1;  // ARPHRD_ETHER

}  // namespace

std::vector<std::string> ethernet_interfaces() {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", error)) {
    int type = 0;
    std::ifstream(entry.path() / "type") >> type;
    if (type == kEthernetType) out.push_back(entry.path().filename());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string extcap_interfaces(const std::vector<std::string>& interfaces, std::string_view version) {
  std::string out = "extcap {version=" + std::string(version) + "}{display=Viaduct}\n";
  for (const std::string& name : interfaces) {
    out += "interface {value=" + std::string(kPrefix) + name + "}{display=Viaduct frames on " + name + "}\n";
  }
  return out;
}

std::string extcap_dlts() { return "dlt {number=1}{name=EN10MB}{display=Ethernet}\n"; }

std::string extcap_config() {
  return "arg {number=0}{call=--headers-only}{display=Without the data of messages}{type=boolflag}\n"
         "arg {number=1}{call=--vi}{display=Only this VI}{type=unsigned}{range=0,4294967294}\n"
         "arg {number=2}{call=--pid}{display=Only this process}{type=unsigned}{range=1,4194304}"
         "{tooltip=The agent on this host says which VIs it has}\n"
         "arg {number=3}{call=--promiscuous}{display=Frames for other hosts too}{type=boolflag}\n";
}

std::string interface_of_extcap(std::string_view name) {
  if (!name.starts_with(kPrefix)) return "";
  return std::string(name.substr(kPrefix.size()));
}

}  // namespace viaduct::dump
