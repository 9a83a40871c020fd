// Writes the seed corpus of fuzz_config, a file for each configuration, into a folder that exists.
//
//   make_config_corpus FOLDER
#include <cstdio>
#include <cstring>
#include <string>

namespace {

constexpr const char* kTexts[] = {
    "",
    "socket = \"@x\"\nname = \"a.b\"\nspin_us = 5\nlog_level = \"debug\"\n",
    "[[nic]]\ninterface = \"eth0\"\n[[nic]]\ninterface = 'eth1'\nport = \"pcap\"\n",
    "[[nic]]\ninterface = \"e\"\nport = \"auto\"\nether_type = 0x88b5\nframes = 1024\nring = 64\n",
    "[limits]\nsessions = 4\nsessions_per_user = 2\nvis = 100\ncqs = 10\nregions = 50\nptags = 5\n"
    "slots = 1024\nmax_transfer = 65536\nkeepalive_ms = 10\npeer_timeout_ms = 30\n",
    "[access]\nusers = [\"alice\", 5, \"6\"]\ngroups = [\"via\", 7]\n",
    "placement = \"hosted\"\n[granted]\nusers = [\"alice\"]\ngroups = [7]\nports = 3\n"
    "ports_per_user = 2\nready_ports = 1\numem_kb = 512\n",
    "placement = 'granted'\n[granted]\nports = 0\numem_kb = 300\nx = 1\n",
    "[limits]\nvis = 16254\ncqs = 16254\n[[nic]]\ninterface = 'e'\nether_type = 0x0800\n",
    "[hosts]\nalpha = \"02:00:00:00:00:01\"\nALPHA = '02:00:00:00:00:02'\n",
    "[hosts]\nalpha = \"02:00:00:00:00:01\"\n\"b.c\" = '02:00:00:00:00:02'\n",
    "# a remark\nspin_us = 1_000\nname = \"\"\"long\ntext\"\"\"\nlimits = { vis = 3, cqs = 0x4 }\n",
    "a.b.c = [1, 2.5, true, 1979-05-27T07:32:00Z, [\"x\"], { y = -inf }]\n",
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  int number = 0;
  for (const char* text : kTexts) {
    const std::string path = std::string(argv[1]) + "/config-" + std::to_string(++number);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const bool written =
        file != nullptr && std::fwrite(text, 1, std::strlen(text), file) == std::strlen(text);
    if (file == nullptr || std::fclose(file) != 0 || !written) {
      std::perror(path.c_str());
      return 1;
    }
  }
  return 0;
}
