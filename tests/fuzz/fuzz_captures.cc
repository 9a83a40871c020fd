// Fuzz target of viadump with files of captures: pcapng and pcap of any content are read, their frames found, judged,
// printed in each style, and written again. Lines are lines, without characters that a terminal obeys; an object of JSON
// has all its braces; a file that viadump has written is read back, with the same packets.
//
// The input is a byte for the style, a byte for the options, and the file.
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kagent/tools/viadump/capture_reader.h"
#include "kagent/tools/viadump/pcapng_writer.h"
#include "kagent/tools/viadump/pipeline.h"
#include "tests/fuzz/fuzz_input.h"

using namespace viaduct;  // NOLINT: one translation unit
using namespace viaduct::dump;  // NOLINT: one translation unit
using fuzz::Input;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// A file in memory that grows.
class Written {
 public:
  Written() : file_(open_memstream(&data_, &bytes_)) { require(file_ != nullptr, "memory"); }
  ~Written() {
    file_.reset();
    std::free(data_);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  std::FILE* file() const { return file_.get(); }
  std::string text() {
    std::fflush(file_.get());
    return {data_, bytes_};
  }

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  File file_;
};

std::vector<Packet> packets_of(std::string bytes) {
  std::vector<Packet> out;
  const File file(fmemopen(bytes.data(), bytes.size(), "rb"));
  CaptureReader reader(file.get(), "its own");
  for (Packet packet; reader.next(packet); packet = {}) out.push_back(packet);
  return out;
}

// Whether a line is an object of JSON, as far as braces, brackets and strings tell.
bool is_object(const std::string& line) {
  std::string open;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      open.push_back(c == '{' ? '}' : ']');
    } else if (c == '}' || c == ']') {
      if (open.empty() || open.back() != c) return false;
      open.pop_back();
      if (open.empty() && i + 1 != line.size()) return false;
    }
  }
  return open.empty() && !quoted && !line.empty() && line[0] == '{';
}

void check_text(const std::string& text, Style style) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    require(end != std::string::npos, "a line without an end");
    const std::string line = text.substr(at, end - at);
    for (const char c : line) {
      require(static_cast<unsigned char>(c) >= ' ' && c != 0x7f, "a character that a terminal obeys");
    }
    require(style != Style::kJson || is_object(line), "a line that is no object of JSON");
    at = end + 1;
  }
}

PipelineOptions options_of(std::uint8_t style, std::uint8_t how) {
  PipelineOptions out;
  out.style = static_cast<Style>(style % 3);
  out.time = static_cast<TimeStyle>(style / 4 % 3);
  out.headers_only = (how & 1) != 0;
  out.snap_length = (how & 2) != 0 ? how / 4u + 1 : 0;
  if ((how & 4) != 0) out.filter.only_refused = true;
  if ((how & 8) != 0) out.filter.vis = {how / 16u};
  if ((how & 32) != 0) out.filter.types = {wire::Type::kData, wire::Type::kConnectAccept};
  if ((how & 64) != 0) out.count = 2;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t style = input.byte(), how = input.byte();
  const auto rest = input.bytes(size);
  std::string bytes(rest.begin(), rest.end());
  if (bytes.empty()) return 0;
  const PipelineOptions options = options_of(style, how);
  Written text, again;
  std::vector<Packet> written;
  {
    const File file(fmemopen(bytes.data(), bytes.size(), "rb"));
    PcapngWriter writer(again.file(), "fuzz");
    Pipeline pipeline(options, text.file(), &writer, nullptr);
    try {
      CaptureReader reader(file.get(), "it");
      bool wants = true;
      std::size_t captured = 0;
      for (Packet packet; wants && reader.next(packet); packet = {}) {
        require(packet.interface < reader.interfaces().size(), "an interface that is not there");
        require(packet.bytes.size() <= packet.length, "more captured than there was");
        captured += packet.bytes.size();
        const std::uint64_t before = pipeline.packets();
        wants = pipeline.take(packet, reader.interfaces());
        if (pipeline.packets() != before) written.push_back(packet);
      }
      require(captured <= bytes.size(), "more bytes than the file has");
    } catch (const std::runtime_error&) {
      // The file is damaged, which is said.
    }
    writer.flush();
  }
  check_text(text.text(), options.style);
  if (written.empty()) return 0;
  const std::vector<Packet> back = packets_of(again.text());
  require(back.size() == written.size(), "packets are lost on the way through a file");
  for (std::size_t i = 0; i < back.size(); ++i) {
    require(back[i].length == written[i].length && back[i].bytes.size() <= written[i].bytes.size() &&
                back[i].time_ns == written[i].time_ns,
            "a packet has changed on the way through a file");
    require(std::equal(back[i].bytes.begin(), back[i].bytes.end(), written[i].bytes.begin()), "bytes have changed");
  }
  return 0;
}
