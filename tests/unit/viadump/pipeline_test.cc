#include "kagent/tools/viadump/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kagent/tools/viadump/capture_reader.h"
#include "kagent/tools/viadump/extcap.h"
#include "tests/unit/viadump/random_frames.h"

namespace viaduct::dump {
namespace {

constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

const std::vector<CapturedInterface> kInterfaces{{"eth0", "", 0}};

Packet packet_of(std::vector<std::byte> bytes, std::uint64_t time_ns = 5'000'000'000) {
  Packet out;
  out.time_ns = time_ns;
  out.length = static_cast<std::uint32_t>(bytes.size());
  out.bytes = std::move(bytes);
  return out;
}

std::vector<std::byte> data_frame(std::uint16_t bytes, std::uint16_t flags = wire::kFlagFirst | wire::kFlagLast) {
  wire::Header header{.type = wire::Type::kData};
  header.flags = flags;
  header.vi = 3;
  header.psn = 1001;
  header.ack = 77;
  header.window = 64;
  header.message_length = bytes;
  header.payload_length = bytes;
  std::vector<std::byte> out(std::max(kBefore + bytes + wire::kChecksumBytes, wire::kMinFrameBytes), std::byte{1});
  out.resize(wire::encode(header, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, wire::kDefaultEtherType, out.data()));
  return out;
}

// A file in memory, and its contents at the end.
class Memory {
 public:
  Memory() : file_(open_memstream(&data_, &size_)) {}
  ~Memory() {
    close();
    std::free(data_);
  }
  std::FILE* file() { return file_; }
  void close() {
    if (file_ != nullptr) std::fclose(file_);
    file_ = nullptr;
  }
  std::string text() {
    close();
    return {data_, size_};
  }
  std::vector<Packet> packets() {
    close();
    std::FILE* const file = fmemopen(data_, size_, "rb");
    CaptureReader reader(file, "it");
    std::vector<Packet> out;
    for (Packet packet; reader.next(packet);) out.push_back(packet);
    std::fclose(file);
    return out;
  }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

std::string printed(PipelineOptions options, const std::vector<Packet>& packets) {
  Memory out;
  options.time = options.time == TimeStyle::kClock ? TimeStyle::kEpoch : options.time;
  Pipeline pipeline(options, out.file(), nullptr, nullptr);
  for (const Packet& packet : packets) pipeline.take(packet, kInterfaces);
  return out.text();
}

TEST(Pipeline, PrintsALineForEachFrame) {
  EXPECT_EQ(printed({}, {packet_of(data_frame(64))}),
            "5.000000000 02:00:00:00:00:01 > 02:00:00:00:00:02 DATA VI 3 PSN 1001 ACK 77 window 64 "
            "send 64 of 64 at 0 flags first,last length 118\n");
  PipelineOptions relative;
  relative.time = TimeStyle::kRelative;
  const std::string two = printed(relative, {packet_of(data_frame(4), 10), packet_of(data_frame(4), 1'000'000'030)});
  EXPECT_EQ(two.substr(0, 12), "0.000000000 ");
  EXPECT_NE(two.find("\n1.000000020 "), std::string::npos);
}

TEST(Pipeline, SaysWhatIsCutRefusedAndCommented) {
  Packet cut = packet_of(data_frame(64));
  cut.bytes.resize(60);
  EXPECT_NE(printed({}, {cut}).find("length 118 cut\n"), std::string::npos);
  Packet refused = packet_of(data_frame(64));
  refused.bytes[wire::kEthernetBytes] = std::byte{2};
  refused.comment = "a\nb";
  EXPECT_EQ(printed({}, {refused}),
            "5.000000000 02:00:00:00:00:01 > 02:00:00:00:00:02 length 118 refused: version # a\\u000ab\n");
}

// Captures come from other people: they must send nothing to the terminal.
TEST(Pipeline, PrintsNoControlCharacters) {
  Memory out;
  Pipeline pipeline({}, out.file(), nullptr, nullptr);
  Packet packet = packet_of(data_frame(4));
  packet.comment = "a\033[2J";
  pipeline.take(packet, {{"e\033[2J", "", 0}, {"eth1", "", 0}});
  EXPECT_EQ(out.text().find('\033'), std::string::npos);
}

// Any host of the link may send a name.
TEST(Pipeline, PrintsNoControlCharactersOfNames) {
  wire::NameBody body{};
  body.name = {'a', '\033', '\n'};
  body.name_length = 3;
  std::vector<std::byte> frame(kBefore + 256);
  wire::Header header{.type = wire::Type::kNameReply};
  header.payload_length = static_cast<std::uint16_t>(wire::encode(body, &frame[kBefore]));
  frame.resize(wire::encode(header, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, wire::kDefaultEtherType, frame.data()));
  for (const Style style : {Style::kLine, Style::kFields, Style::kJson}) {
    PipelineOptions options;
    options.style = style;
    const std::string text = printed(options, {packet_of(frame)});
    EXPECT_NE(text.find("a\\u001b\\u000a"), std::string::npos) << text;
    EXPECT_EQ(text.find('\033'), std::string::npos);
  }
}

TEST(Pipeline, PrintsFieldsAndJson) {
  PipelineOptions fields;
  fields.style = Style::kFields;
  EXPECT_NE(printed(fields, {packet_of(data_frame(4))}).find("\n    viaduct.psn 1001\n"), std::string::npos);
  PipelineOptions json;
  json.style = Style::kJson;
  const std::string text = printed(json, {packet_of(data_frame(4))});
  EXPECT_EQ(text.substr(0, 25), "{\"time_ns\": 5000000000, \"");
  EXPECT_NE(text.find("\"psn\": 1001"), std::string::npos);
  EXPECT_NE(text.find("\"key\": \"0x0000000000000000\""), std::string::npos);
  EXPECT_NE(text.find("\"data\": \"01010101\""), std::string::npos);
}

TEST(Pipeline, TakesNothingButFramesThatAreWanted) {
  PipelineOptions options;
  options.filter.types = {wire::Type::kData};
  SimRandom random(1);
  const std::string text = printed(options, {packet_of(std::vector<std::byte>(100)), packet_of(data_frame(4)),
                                             packet_of(random_frame(random, wire::Type::kAck))});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Pipeline, EndsAfterSoManyPackets) {
  PipelineOptions options;
  options.count = 2;
  Pipeline pipeline(options, nullptr, nullptr, nullptr);
  EXPECT_TRUE(pipeline.take(packet_of(std::vector<std::byte>(100)), kInterfaces));
  EXPECT_TRUE(pipeline.take(packet_of(data_frame(4)), kInterfaces));
  EXPECT_FALSE(pipeline.take(packet_of(data_frame(4)), kInterfaces));
  EXPECT_EQ(pipeline.packets(), 2u);
}

TEST(Pipeline, WritesWhatItKeeps) {
  struct Case {
    std::uint32_t snap_length;
    bool headers_only;
    std::vector<std::byte> frame;
    std::size_t kept;
  };
  SimRandom random(1);
  const auto connect = random_frame(random, wire::Type::kConnectRequest);
  for (const Case& each : {Case{0, false, data_frame(200), 254}, Case{0, true, data_frame(200), kBefore},
                           Case{100, false, data_frame(200), 100}, Case{20, true, data_frame(200), 20},
                           Case{0, true, connect, connect.size()},
                           Case{0, true, data_frame(200, wire::kFlagFirst | wire::kOpRdmaWrite), kBefore + 16}}) {
    Memory file;
    PcapngWriter writer(file.file(), "test");
    PipelineOptions options;
    options.snap_length = each.snap_length;
    options.headers_only = each.headers_only;
    Pipeline pipeline(options, nullptr, &writer, nullptr);
    pipeline.take(packet_of(each.frame), kInterfaces);
    const auto packets = file.packets();
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets[0].bytes.size(), each.kept);
    EXPECT_EQ(packets[0].length, each.frame.size());
    EXPECT_TRUE(std::equal(packets[0].bytes.begin(), packets[0].bytes.end(), each.frame.begin()));
  }
}

TEST(Pipeline, CommentsOnWhatIsDropped) {
  Memory file;
  PcapngWriter writer(file.file(), "test");
  Pipeline pipeline({}, nullptr, &writer, nullptr);
  Packet bad = packet_of(data_frame(64, wire::kFlagChecked));
  bad.bytes[kBefore] ^= std::byte{1};
  pipeline.take(bad, kInterfaces);
  bad.comment = "its own";
  pipeline.take(bad, kInterfaces);
  pipeline.take(packet_of(data_frame(64)), kInterfaces);
  const auto packets = file.packets();
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(packets[0].comment, "a receiver drops this frame: checksum");
  EXPECT_EQ(packets[1].comment, "its own");
  EXPECT_EQ(packets[2].comment, "");
}

TEST(Extcap, SaysWhatWiresharkAsksFor) {
  EXPECT_EQ(extcap_interfaces({"eth0"}, "1.2"),
            "extcap {version=1.2}{display=Viaduct}\n"
            "interface {value=viaduct-eth0}{display=Viaduct frames on eth0}\n");
  EXPECT_EQ(extcap_dlts(), "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
  EXPECT_NE(extcap_config().find("{call=--headers-only}"), std::string::npos);
  EXPECT_EQ(interface_of_extcap("viaduct-eth0"), "eth0");
  EXPECT_EQ(interface_of_extcap("eth0"), "");
}

}  // namespace
}  // namespace viaduct::dump
