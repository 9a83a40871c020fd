#include "kagent/contract/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/sim_port.h"

namespace viaduct::wire {
namespace {

constexpr MacAddress kTo{0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
constexpr MacAddress kFrom{0x02, 0x66, 0x77, 0x88, 0x99, 0xaa};
constexpr std::size_t kBefore = kEthernetBytes + kHeaderBytes;

using Bytes = std::vector<std::byte>;

// Hexadecimal digits, blanks ignored.
Bytes hex(const std::string& text) {
  Bytes bytes;
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c != ' ' && c != '\n'; });
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte b : bytes) {
    const auto v = std::to_integer<unsigned>(b);
    text += "0123456789abcdef"[v >> 4];
    text += "0123456789abcdef"[v & 15];
  }
  return text;
}

Bytes make_frame(const Header& header, const Bytes& payload = {}) {
  const std::size_t checksum = has_checksum(header.type, header.flags) ? kChecksumBytes : 0;
  Bytes frame(std::max(kBefore + payload.size() + checksum, kMinFrameBytes), std::byte{0xee});
  Header h = header;
  h.payload_length = static_cast<std::uint16_t>(payload.size());
  std::copy(payload.begin(), payload.end(), frame.begin() + kBefore);
  const std::size_t length = encode(h, kTo, kFrom, kDefaultEtherType, frame.data());
  EXPECT_EQ(length, frame.size());
  return frame;
}

Header sample(Type type) {
  Header h{.type = type};
  h.vi = 0x01020304;
  h.key = 0x1122334455667788;
  h.psn = 0xa1a2a3a4;
  h.ack = 0xb1b2b3b4;
  h.message_length = 0x00010000;
  h.offset = 0x00000200;
  h.immediate = 0xc1c2c3c4;
  h.window = 0xd1d2;
  return h;
}

Header data(std::uint16_t flags, std::uint32_t message_length, std::uint32_t offset) {
  Header h{.type = Type::kData};
  h.flags = flags;
  h.message_length = message_length;
  h.offset = offset;
  return h;
}

ConnectBody sample_connect() {
  ConnectBody body{};
  body.host = {0x02, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5};
  body.request = 0x01020304;
  body.vi = 0x11121314;
  body.key = 0x2122232425262728;
  body.first_psn = 0x31323334;
  body.max_transfer = 0x00010000;
  body.reliability = 2;
  body.mtu = 1500;
  body.rdma_flags = kRdmaWriteEnabled | kPeerToPeer;
  body.local_length = 3;
  body.remote_length = 2;
  std::memcpy(body.local.data(), "abc", 3);
  std::memcpy(body.remote.data(), "xy", 2);
  return body;
}

NameBody sample_name(const std::string& name) {
  NameBody body{};
  body.request = 0x51525354;
  body.name_length = static_cast<std::uint8_t>(name.size());
  std::copy(name.begin(), name.end(), body.name.begin());
  return body;
}

std::vector<unsigned> known_types() { return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

template <class Body>
Bytes encoded(const Body& body) {
  Bytes bytes(std::max(kConnectBodyMaxBytes, kNameBodyMaxBytes));
  bytes.resize(encode(body, bytes.data()));
  return bytes;
}

// Decodes a copy of just this length, so that AddressSanitizer sees every read behind it.
Malformed decode_exactly(std::span<const std::byte> frame, Decoded& out) {
  auto copy = std::make_unique<std::byte[]>(frame.size());
  std::copy(frame.begin(), frame.end(), copy.get());
  const Malformed result = decode({copy.get(), frame.size()}, out);
  if (result == Malformed::kNone) {
    const std::byte* const end = out.payload.data() + out.payload.size();
    EXPECT_EQ(out.payload.data(), copy.get() + kBefore);
    EXPECT_LE(end, copy.get() + frame.size());
  }
  out.payload = {};
  return result;
}

Malformed decode_exactly(std::span<const std::byte> frame) {
  Decoded out{};
  return decode_exactly(frame, out);
}

template <class Body>
bool body_decodes(std::span<const std::byte> payload) {
  const Bytes copy(payload.begin(), payload.end());
  Body body;
  return decode(copy, body);
}

const std::string kEthernet = "021122334455 0266778899aa 88b5";
const std::string kSampleFields =
    "01020304 1122334455667788 a1a2a3a4 b1b2b3b4 00010000 00000200 c1c2c3c4";

void append_checksum(Bytes& frame) {
  const std::uint32_t crc = crc32c_by_table(&frame[kEthernetBytes], frame.size() - kEthernetBytes);
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame.push_back(static_cast<std::byte>(crc >> shift));
  }
}

// ---------------------------------------------------------------------------- bytes

TEST(Wire, EncodesTheHeaderOfEachTypeToTheseBytes) {
  for (const unsigned type : known_types()) {
    std::string two_digits = "0";
    two_digits += "0123456789abcdef"[type];
    const Bytes frame = make_frame(sample(static_cast<Type>(type)));
    Bytes expected = hex(kEthernet + "03" + two_digits + "0000" + kSampleFields + "0000 d1d2");
    if (type != 1) append_checksum(expected);
    expected.resize(kMinFrameBytes);
    EXPECT_EQ(to_hex(frame), to_hex(expected)) << "type " << type;
  }
}

TEST(Wire, NumbersTheTypesAsWrittenDown) {
  EXPECT_EQ(static_cast<int>(Type::kData), 1);
  EXPECT_EQ(static_cast<int>(Type::kAck), 2);
  EXPECT_EQ(static_cast<int>(Type::kConnectMoved), 3);
  EXPECT_EQ(static_cast<int>(Type::kConnectRequest), 4);
  EXPECT_EQ(static_cast<int>(Type::kConnectAccept), 5);
  EXPECT_EQ(static_cast<int>(Type::kConnectConfirm), 6);
  EXPECT_EQ(static_cast<int>(Type::kConnectReject), 7);
  EXPECT_EQ(static_cast<int>(Type::kConnectHeld), 8);
  EXPECT_EQ(static_cast<int>(Type::kDisconnect), 9);
  EXPECT_EQ(static_cast<int>(Type::kDisconnectAck), 10);
  EXPECT_EQ(static_cast<int>(Type::kProbe), 11);
  EXPECT_EQ(static_cast<int>(Type::kProbeAck), 12);
  EXPECT_EQ(static_cast<int>(Type::kReset), 13);
  EXPECT_EQ(static_cast<int>(Type::kNameQuery), 14);
  EXPECT_EQ(static_cast<int>(Type::kNameReply), 15);
  EXPECT_EQ(static_cast<int>(Type::kClaimQuery), 16);
  EXPECT_EQ(static_cast<int>(Type::kClaimReply), 17);
}

TEST(Wire, EncodesADataFrameToTheseBytes) {
  Header h = sample(Type::kData);
  h.flags = kFlagLast | kFlagImmediate | kFlagAckNow | kOpRdmaWrite;
  const Bytes frame = make_frame(h, hex("deadbeef 0badcafe"));
  EXPECT_EQ(to_hex(frame),
            to_hex(hex(kEthernet + "0301001e" + kSampleFields + "0008 d1d2 deadbeef 0badcafe")));
}

TEST(Wire, EncodesACheckedDataFrameToTheseBytes) {
  Header h = sample(Type::kData);
  h.flags = kFlagLast | kFlagChecked;
  Bytes expected =
      hex(kEthernet + "03010082" + kSampleFields + "000c d1d2 deadbeef 0badcafe 01020304");
  append_checksum(expected);
  EXPECT_EQ(to_hex(make_frame(h, hex("deadbeef 0badcafe 01020304"))), to_hex(expected));
}

TEST(Wire, EncodesTheBodiesToTheseBytes) {
  EXPECT_EQ(to_hex(encoded(sample_connect())),
            to_hex(hex("02b1b2b3b4b5 01020304 11121314 2122232425262728 31323334 00010000 0002 05dc 05 03 02"
                       "616263 7879")));
  EXPECT_EQ(to_hex(encoded(sample_name("b1"))), to_hex(hex("51525354 02 6231")));
  Bytes rdma(kRdmaBytes, std::byte{0xee});
  encode(RdmaHeader{0x4142434445464748, 0x61626364}, rdma.data());
  EXPECT_EQ(to_hex(rdma), to_hex(hex("4142434445464748 61626364 00000000")));
}

TEST(Wire, LoadsAndStoresBigEndianAtAnyAlignment) {
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes bytes(24, std::byte{0});
    store16(bytes.data() + shift, 0x0102);
    EXPECT_EQ(to_hex(std::span(bytes).subspan(shift, 2)), "0102");
    EXPECT_EQ(load16(bytes.data() + shift), 0x0102);
    store32(bytes.data() + shift, 0x01020304);
    EXPECT_EQ(to_hex(std::span(bytes).subspan(shift, 4)), "01020304");
    EXPECT_EQ(load32(bytes.data() + shift), 0x01020304u);
    store64(bytes.data() + shift, 0x0102030405060708);
    EXPECT_EQ(to_hex(std::span(bytes).subspan(shift, 8)), "0102030405060708");
    EXPECT_EQ(load64(bytes.data() + shift), 0x0102030405060708u);
  }
}

TEST(Wire, ZeroesThePaddingOfAShortFrameAndNothingElse) {
  for (std::uint16_t payload = 0; payload < 12; ++payload) {
    Bytes frame(80, std::byte{0xee});
    Header h = sample(Type::kAck);
    h.payload_length = payload;
    const std::size_t length = encode(h, kTo, kFrom, kDefaultEtherType, frame.data());
    const std::size_t end = kBefore + payload + kChecksumBytes;
    EXPECT_EQ(length, std::max(kMinFrameBytes, end));
    for (std::size_t i = kBefore; i < frame.size(); ++i) {
      if (i >= kBefore + payload && i < end) continue;
      const bool padding = i >= end && i < length;
      EXPECT_EQ(frame[i], padding ? std::byte{0} : std::byte{0xee}) << i;
    }
  }
}

TEST(Wire, ReadsBackWhatItWrote) {
  SimRandom random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::vector<unsigned> types = known_types();
    Header h{.type = static_cast<Type>(types[random.below(types.size())])};
    h.vi = static_cast<std::uint32_t>(random.next());
    h.key = random.next();
    h.psn = static_cast<std::uint32_t>(random.next());
    h.ack = static_cast<std::uint32_t>(random.next());
    h.immediate = static_cast<std::uint32_t>(random.next());
    h.window = static_cast<std::uint16_t>(random.next());
    Bytes payload(random.below(100));
    for (std::byte& b : payload) b = static_cast<std::byte>(random.next());
    if (h.type == Type::kData) {
      h.flags = static_cast<std::uint16_t>(random.next() & kKnownFlags);
      if ((h.flags & kFlagPacked) != 0) {
        h.flags = static_cast<std::uint16_t>((h.flags & (kFlagAckNow | kFlagChecked)) |
                                             kFlagPacked | kFlagFirst | kFlagLast | kOpSend);
      }
      if ((h.flags & kOpMask) == kOpRdmaReadRequest) {
        h.flags |= kFlagFirst | kFlagLast;
        payload.resize(kRdmaBytes);
      }
      if (payload.size() < rdma_bytes(h.flags)) payload.resize(kRdmaBytes);
      const auto bytes = static_cast<std::uint32_t>(payload.size() - rdma_bytes(h.flags));
      h.message_length = bytes + static_cast<std::uint32_t>(random.below(0xffffff00));
      h.offset = static_cast<std::uint32_t>(random.below(h.message_length - bytes + 1ull));
      if ((h.flags & kFlagPacked) != 0) h.message_length = bytes, h.offset = 0;
    } else {
      h.message_length = static_cast<std::uint32_t>(random.next());
      h.offset = static_cast<std::uint32_t>(random.next());
    }
    const Bytes frame = make_frame(h, payload);
    Decoded d{};
    ASSERT_EQ(decode(frame, d), Malformed::kNone);
    EXPECT_EQ(d.destination, kTo);
    EXPECT_EQ(d.source, kFrom);
    EXPECT_EQ(d.header.type, h.type);
    EXPECT_EQ(d.header.flags, h.flags);
    EXPECT_EQ(d.header.vi, h.vi);
    EXPECT_EQ(d.header.key, h.key);
    EXPECT_EQ(d.header.psn, h.psn);
    EXPECT_EQ(d.header.ack, h.ack);
    EXPECT_EQ(d.header.message_length, h.message_length);
    EXPECT_EQ(d.header.offset, h.offset);
    EXPECT_EQ(d.header.immediate, h.immediate);
    EXPECT_EQ(d.header.payload_length, payload.size());
    EXPECT_EQ(d.header.window, h.window);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), d.payload.begin(), d.payload.end()));
    EXPECT_TRUE(intact(d));
  }
}

// ---------------------------------------------------------------------------- checksums

TEST(Crc32c, IsTheKnownOneOfKnownBytes) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  const Bytes zeros(32), ones(32, std::byte{0xff});  // RFC 3720, B.4
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones.data(), 32), 0x62a8ab43u);
}

TEST(Crc32c, IsTheSameWithAndWithoutInstructions) {
  SimRandom random(1);
  Bytes bytes(10'000);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  for (std::size_t length = 0; length < 2'000; ++length) {
    const std::size_t at = random.below(64);
    EXPECT_EQ(crc32c(&bytes[at], length), crc32c_by_table(&bytes[at], length)) << length;
  }
  for (int i = 0; i < 500; ++i) {
    const std::size_t at = random.below(64), length = random.below(bytes.size() - at);
    EXPECT_EQ(crc32c(&bytes[at], length), crc32c_by_table(&bytes[at], length)) << length;
  }
}

// Every single bit behind the addresses of a frame that has a checksum. A change of type or flags
// can also make it one that decode() refuses, or data without a checksum, which the stack refuses
// where there should be one.
TEST(Wire, SeesEveryChangedBit) {
  Header checked = data(kFlagFirst | kFlagLast | kFlagChecked, 300, 0);
  const Bytes body = encoded(sample_connect());
  for (const Bytes& frame : {make_frame(checked, Bytes(300)), make_frame(sample(Type::kAck)),
                             make_frame(sample(Type::kDisconnect)),
                             make_frame(sample(Type::kConnectRequest), body)}) {
    Decoded d{};
    ASSERT_EQ(decode(frame, d), Malformed::kNone);
    ASSERT_TRUE(intact(d));
    const std::size_t end = kBefore + d.header.payload_length + kChecksumBytes;
    for (std::size_t bit = 8 * kEthernetBytes; bit < 8 * end; ++bit) {
      Bytes other = frame;
      other[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      if (decode(other, d) != Malformed::kNone) continue;
      EXPECT_TRUE(!intact(d) || !has_checksum(d.header.type, d.header.flags)) << bit;
    }
  }
}

// A bundle of these frames.
Bytes bundle_of(const std::vector<Bytes>& frames) {
  Bytes out(frames[0].begin(), frames[0].begin() + kEthernetBytes);
  for (const Bytes& each : frames) {
    out.insert(out.end(), each.begin() + kEthernetBytes, each.begin() + static_cast<std::ptrdiff_t>(end_of(each)));
  }
  out.resize(std::max(out.size(), kMinFrameBytes));
  return out;
}

TEST(Bundle, HasItsFramesInOrder) {
  Header small = data(kFlagFirst | kFlagLast, 1, 0), checked = data(kFlagFirst | kFlagLast | kFlagChecked, 300, 0);
  small.psn = 1, checked.psn = 2;
  Header ack = sample(Type::kAck);
  ack.psn = 3;
  const std::vector<Bytes> frames = {make_frame(small, Bytes(1)), make_frame(checked, Bytes(300)), make_frame(ack),
                                     make_frame(small, Bytes(1))};
  const Bytes all = bundle_of(frames);
  Decoded d{};
  ASSERT_EQ(decode(all, d), Malformed::kNone);
  EXPECT_TRUE(intact(d));
  std::vector<std::uint32_t> psns = {d.header.psn};
  for (std::size_t at; (at = next_in_bundle(all, d)) != 0;) {
    ASSERT_EQ(decode_bundled(all, at, d), Malformed::kNone);
    EXPECT_TRUE(intact(d));
    psns.push_back(d.header.psn);
  }
  EXPECT_EQ(psns, (std::vector<std::uint32_t>{1, 2, 3, 1}));
}

TEST(Bundle, EndsAtPadding) {
  for (const std::size_t bytes : {0, 1, 2, 300}) {
    Bytes frame = make_frame(data(kFlagFirst | kFlagLast, static_cast<std::uint32_t>(bytes), 0), Bytes(bytes));
    frame.resize(frame.size() + 100);
    Decoded d{};
    ASSERT_EQ(decode(frame, d), Malformed::kNone);
    EXPECT_EQ(next_in_bundle(frame, d), 0u) << bytes;
  }
}

TEST(Bundle, HasDataAndAcknowledgementsAlone) {
  const Bytes first = make_frame(sample(Type::kAck)), connect = make_frame(sample(Type::kConnectRequest), encoded(sample_connect()));
  Decoded d{};
  Bytes all = bundle_of({first, connect});
  ASSERT_EQ(decode(all, d), Malformed::kNone);
  const std::size_t at = next_in_bundle(all, d);
  ASSERT_NE(at, 0u);
  EXPECT_EQ(decode_bundled(all, at, d), Malformed::kType);
  all = bundle_of({connect, first});
  ASSERT_EQ(decode(all, d), Malformed::kNone);
  EXPECT_EQ(next_in_bundle(all, d), 0u) << "nothing follows a request";
}

TEST(Bundle, IsReadNoFurtherThanItsEnd) {
  const Bytes one = make_frame(sample(Type::kAck), Bytes(32)), all = bundle_of({one, one});
  for (std::size_t size = end_of(one); size < all.size(); ++size) {
    Bytes cut(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
    Decoded d{};
    ASSERT_EQ(decode(cut, d), Malformed::kNone);
    const std::size_t at = next_in_bundle(cut, d);
    EXPECT_EQ(at != 0, size >= end_of(one) + kHeaderBytes) << size;
    if (at != 0) EXPECT_EQ(decode_bundled(cut, at, d), Malformed::kLength) << size;
  }
}

// A frame of a bundle that is kept takes the place of those before it.
TEST(Bundle, MovesAFrameToItsFront) {
  Header header = data(kFlagFirst | kFlagLast | kFlagChecked, 50, 0);
  Bytes all = bundle_of({make_frame(sample(Type::kAck), Bytes(32)), make_frame(header, Bytes(50, std::byte{7}))});
  Decoded d{};
  ASSERT_EQ(decode(all, d), Malformed::kNone);
  ASSERT_EQ(decode_bundled(all, next_in_bundle(all, d), d), Malformed::kNone);
  all.resize(move_to_front(all.data(), d));
  ASSERT_EQ(decode(all, d), Malformed::kNone);
  EXPECT_TRUE(intact(d));
  EXPECT_EQ(d.header.type, Type::kData);
  EXPECT_EQ(Bytes(d.payload.begin(), d.payload.end()), Bytes(50, std::byte{7}));
}

TEST(Wire, SealsAFrameThatWasChanged) {
  for (const Type type : {Type::kAck, Type::kData}) {
    Header h = sample(type);
    if (type == Type::kData) h.flags = kFlagChecked;
    Bytes frame = make_frame(h, Bytes(40));
    frame[kBefore + 7] ^= std::byte{4};
    Decoded d{};
    ASSERT_EQ(decode(frame, d), Malformed::kNone);
    EXPECT_FALSE(intact(d));
    seal(frame);
    EXPECT_TRUE(intact(d));
  }
}

// ---------------------------------------------------------------------------- frames refused

TEST(Wire, GivesADataFrameAChecksumLater) {
  for (const std::uint16_t bytes : {std::uint16_t{1}, std::uint16_t{100}}) {
    Header h = data(kFlagFirst | kFlagLast, bytes, 0);
    h.payload_length = bytes;
    Bytes frame(200, std::byte{7});
    Frame raw{frame.data(), static_cast<std::uint32_t>(encode(h, {1}, {2}, kDefaultEtherType, frame.data())), 0};
    add_checksum(raw);
    Decoded out;
    ASSERT_EQ(decode({raw.data, raw.length}, out), Malformed::kNone);
    EXPECT_EQ(out.header.flags, kFlagFirst | kFlagLast | kFlagChecked);
    EXPECT_TRUE(intact(out));
    raw.data[kEthernetBytes + kHeaderBytes] ^= std::byte{1};
    EXPECT_FALSE(intact(out));
    const Bytes before = frame;
    add_checksum(raw);  // has one
    EXPECT_EQ(frame, before);
  }
}

TEST(Wire, RefusesEveryTruncation) {
  const Bytes frame = make_frame(data(kFlagFirst, 1000, 0), Bytes(300));
  for (std::size_t length = 0; length < frame.size(); ++length) {
    const Malformed expected = length < kBefore ? Malformed::kShort : Malformed::kLength;
    EXPECT_EQ(decode_exactly(std::span(frame).first(length)), expected) << length;
  }
  EXPECT_EQ(decode_exactly(frame), Malformed::kNone);
}

TEST(Wire, RefusesAFrameWithoutRoomForItsChecksum) {
  const Bytes frame = make_frame(data(kFlagFirst | kFlagChecked, 1000, 0), Bytes(300));
  for (std::size_t less = 1; less <= kChecksumBytes; ++less) {
    EXPECT_EQ(decode_exactly(std::span(frame).first(frame.size() - less)), Malformed::kLength);
  }
  EXPECT_EQ(decode_exactly(frame), Malformed::kNone);
}

TEST(Wire, IgnoresWhatFollowsThePayload) {
  Bytes frame = make_frame(data(kFlagFirst, 1000, 0), Bytes(300));
  frame.resize(frame.size() + 9, std::byte{0xee});
  Decoded d{};
  EXPECT_EQ(decode(frame, d), Malformed::kNone);
  EXPECT_EQ(d.payload.size(), 300u);
}

TEST(Wire, RefusesOtherVersions) {
  Bytes frame = make_frame(sample(Type::kProbe));
  for (unsigned version = 0; version < 256; ++version) {
    frame[kEthernetBytes] = static_cast<std::byte>(version);
    const Malformed expected = version == kVersion ? Malformed::kNone : Malformed::kVersion;
    EXPECT_EQ(decode_exactly(frame), expected) << version;
  }
}

TEST(Wire, RefusesUnknownTypes) {
  Bytes frame = make_frame(sample(Type::kProbe));
  for (unsigned type = 0; type < 256; ++type) {
    frame[kEthernetBytes + 1] = static_cast<std::byte>(type);
    const bool known = type >= 1 && type <= 21;
    EXPECT_EQ(decode_exactly(frame), known ? Malformed::kNone : Malformed::kType) << type;
  }
}

TEST(Wire, RefusesUnknownFlagsOfDataAndAnyFlagOfOtherTypes) {
  for (unsigned bit = 0; bit < 16; ++bit) {
    const auto flag = static_cast<std::uint16_t>(1u << bit);
    for (const unsigned type : known_types()) {
      Header h{.type = static_cast<Type>(type)};
      h.flags = flag;
      h.message_length = 100;
      const bool is_data = h.type == Type::kData;
      if (is_data && flag == kOpRdmaReadRequest) h.flags |= kFlagFirst | kFlagLast;
      if (is_data && flag == kFlagPacked) {
        h.flags |= kFlagFirst | kFlagLast;
        h.message_length = 16;
      }
      const bool known = is_data && (flag & kKnownFlags) != 0;
      const Malformed expected = known ? Malformed::kNone : Malformed::kType;
      EXPECT_EQ(decode_exactly(make_frame(h, Bytes(16))), expected) << bit << ' ' << type;
    }
  }
}

TEST(Wire, TakesAMessageWithoutData) {
  EXPECT_EQ(decode_exactly(make_frame(data(kFlagFirst | kFlagLast, 0, 0))), Malformed::kNone);
}

TEST(Wire, RefusesDataThatGoesBehindItsMessage) {
  EXPECT_EQ(decode_exactly(make_frame(data(0, 100, 90), Bytes(10))), Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(0, 100, 91), Bytes(10))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(0, 100, 100))), Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(0, 100, 101))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(0, 5, 0xffffffff), Bytes(10))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(0, 0xffffffff, 0xffffffff), Bytes(1))),
            Malformed::kLength);
}

TEST(Wire, CountsTheRdmaHeaderOfAFirstFrameAsPayloadButNotAsData) {
  const std::uint16_t first = kFlagFirst | kOpRdmaWrite;
  EXPECT_EQ(rdma_bytes(first), kRdmaBytes);
  EXPECT_EQ(rdma_bytes(kOpRdmaWrite), 0u);
  EXPECT_EQ(rdma_bytes(kFlagFirst | kOpSend), 0u);
  EXPECT_EQ(rdma_bytes(kFlagFirst | kOpRdmaReadResponse), 0u);
  EXPECT_EQ(decode_exactly(make_frame(data(first, 10, 0), Bytes(26))), Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(first, 10, 0), Bytes(27))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(first, 10, 0), Bytes(16))), Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(first, 10, 0), Bytes(15))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(first, 10, 8), Bytes(15))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(kOpRdmaWrite, 10, 0), Bytes(11))), Malformed::kLength);
}

TEST(Wire, TakesAReadRequestOnlyWholeAndWithoutData) {
  const std::uint16_t op = kOpRdmaReadRequest;
  EXPECT_EQ(decode_exactly(make_frame(data(op | 3, 100, 0), Bytes(16))), Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(op | 3, 100, 0), Bytes(17))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(op | 3, 100, 0), Bytes(0))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(op | 1, 100, 0), Bytes(16))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(op | 2, 100, 0), Bytes(16))), Malformed::kLength);
}

TEST(Wire, TakesPackedMessagesOnlyInOneWholeFrameOfSends) {
  const std::uint16_t packed = kFlagPacked | kFlagFirst | kFlagLast;
  EXPECT_EQ(decode_exactly(make_frame(data(packed, 16, 0), Bytes(16))), Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(packed | kFlagAckNow, 16, 0), Bytes(16))),
            Malformed::kNone);
  EXPECT_EQ(decode_exactly(make_frame(data(packed, 17, 0), Bytes(16))), Malformed::kLength);
  EXPECT_EQ(decode_exactly(make_frame(data(packed, 17, 1), Bytes(16))), Malformed::kLength);
  for (const std::uint16_t other :
       {kFlagImmediate, kOpRdmaWrite, kOpRdmaReadRequest, kOpRdmaReadResponse}) {
    const auto flags = static_cast<std::uint16_t>(packed | other);
    EXPECT_EQ(decode_exactly(make_frame(data(flags, 16, 0), Bytes(16))), Malformed::kLength);
  }
  for (const std::uint16_t missing : {kFlagFirst, kFlagLast}) {
    const auto flags = static_cast<std::uint16_t>(packed & ~missing);
    EXPECT_EQ(decode_exactly(make_frame(data(flags, 16, 0), Bytes(16))), Malformed::kLength);
  }
}

TEST(WirePacked, ReadsBackWhatItWroteAndRefusesTheRest) {
  Bytes payload(kPackedBytes + 5);
  encode(PackedHeader{5, kPackedImmediate, 0xc1c2c3c4}, payload.data());
  EXPECT_EQ(to_hex(payload), to_hex(hex("0005 0001 c1c2c3c4 0000000000")));
  PackedHeader out{};
  ASSERT_TRUE(decode(payload, out));
  EXPECT_EQ(out.length, 5);
  EXPECT_EQ(out.flags, kPackedImmediate);
  EXPECT_EQ(out.immediate, 0xc1c2c3c4u);
  for (std::size_t length = 0; length < payload.size(); ++length) {
    EXPECT_FALSE(body_decodes<PackedHeader>(std::span(payload).first(length))) << length;
  }
  payload[3] = std::byte{2};
  EXPECT_FALSE(body_decodes<PackedHeader>(payload));
}

TEST(Wire, LeavesLengthsOfOtherTypesAlone) {
  Header h{.type = Type::kAck};
  h.offset = 100;
  h.message_length = 1;
  EXPECT_EQ(decode_exactly(make_frame(h, Bytes(32))), Malformed::kNone);
}

// ---------------------------------------------------------------------------- bodies

TEST(WireConnectBody, ReadsBackWhatItWroteForAllDiscriminatorLengths) {
  for (std::size_t local = 0; local <= kMaxDiscriminatorBytes; ++local) {
    for (std::size_t remote = 0; remote <= kMaxDiscriminatorBytes; ++remote) {
      ConnectBody body = sample_connect();
      body.local = body.remote = {};
      body.local_length = static_cast<std::uint8_t>(local);
      body.remote_length = static_cast<std::uint8_t>(remote);
      std::fill_n(body.local.begin(), local, std::byte{0x5a});
      std::fill_n(body.remote.begin(), remote, std::byte{0xa5});
      const Bytes payload = encoded(body);
      EXPECT_EQ(payload.size(), 37 + local + remote);
      ConnectBody out{};
      out.local.fill(std::byte{0xee});
      ASSERT_TRUE(decode(payload, out));
      EXPECT_EQ(out.host, body.host);
      EXPECT_EQ(out.request, body.request);
      EXPECT_EQ(out.vi, body.vi);
      EXPECT_EQ(out.key, body.key);
      EXPECT_EQ(out.first_psn, body.first_psn);
      EXPECT_EQ(out.max_transfer, body.max_transfer);
      EXPECT_EQ(out.reliability, body.reliability);
      EXPECT_EQ(out.mtu, body.mtu);
      EXPECT_EQ(out.rdma_flags, body.rdma_flags);
      EXPECT_EQ(out.local_length, local);
      EXPECT_EQ(out.remote_length, remote);
      EXPECT_EQ(out.local, body.local);
      EXPECT_EQ(out.remote, body.remote);
    }
  }
}

// The filter that guards a granted port looks for the host there.
TEST(WireConnectBody, HasTheHostAtAFixedPlaceOfTheFrame) {
  EXPECT_EQ(kConnectHostOffset, 54u);
  const ConnectBody body = sample_connect();
  const Bytes frame = make_frame(sample(Type::kConnectRequest), encoded(body));
  EXPECT_EQ(std::memcmp(frame.data() + kConnectHostOffset, body.host.data(), 6), 0);
}

TEST(WireMoved, IsAnAddressAndNothingElse) {
  const Bytes payload = hex("021122334455");
  MacAddress out{};
  ASSERT_TRUE(decode(payload, out));
  EXPECT_EQ(out, kTo);
  for (std::size_t length = 0; length < 20; ++length) {
    EXPECT_EQ(body_decodes<MacAddress>(Bytes(length)), length == 6) << length;
  }
}

TEST(WireConnectBody, RefusesEveryTruncationAndAnythingBehindIt) {
  Bytes payload = encoded(sample_connect());
  EXPECT_TRUE(body_decodes<ConnectBody>(payload));
  for (std::size_t length = 0; length < payload.size(); ++length) {
    EXPECT_FALSE(body_decodes<ConnectBody>(std::span(payload).first(length))) << length;
  }
  payload.push_back(std::byte{0});
  EXPECT_FALSE(body_decodes<ConnectBody>(payload));
}

TEST(WireConnectBody, RefusesDiscriminatorsThatAreTooLong) {
  for (const std::size_t at : {35u, 36u}) {
    for (unsigned length = 60; length < 256; ++length) {
      ConnectBody body = sample_connect();
      body.local_length = body.remote_length = 0;
      Bytes payload = encoded(body);
      payload[at] = static_cast<std::byte>(length);
      payload.resize(37 + length);
      EXPECT_EQ(body_decodes<ConnectBody>(payload), length <= kMaxDiscriminatorBytes) << length;
    }
  }
}

TEST(WireConnectBody, RefusesUnknownRdmaFlags) {
  for (unsigned flags = 0; flags < 256; ++flags) {
    Bytes payload = encoded(sample_connect());
    payload[34] = static_cast<std::byte>(flags);
    EXPECT_EQ(body_decodes<ConnectBody>(payload), flags < 64) << flags;
  }
}

TEST(WireNameBody, ReadsBackWhatItWroteForAllLengths) {
  for (std::size_t length = 0; length <= kMaxNameBytes; ++length) {
    const NameBody body = sample_name(std::string(length, 'n'));
    const Bytes payload = encoded(body);
    EXPECT_EQ(payload.size(), 5 + length);
    NameBody out;
    ASSERT_TRUE(decode(payload, out));
    EXPECT_EQ(out.request, body.request);
    EXPECT_EQ(out.name_length, length);
    EXPECT_EQ(out.name, body.name);
  }
}

TEST(WireNameBody, RefusesTruncationTrailingBytesAndLongNames) {
  Bytes payload = encoded(sample_name("host-b"));
  for (std::size_t length = 0; length < payload.size(); ++length) {
    EXPECT_FALSE(body_decodes<NameBody>(std::span(payload).first(length))) << length;
  }
  payload.push_back(std::byte{0});
  EXPECT_FALSE(body_decodes<NameBody>(payload));
  for (unsigned length = 60; length < 256; ++length) {
    payload.assign(5 + length, std::byte{'n'});
    payload[4] = static_cast<std::byte>(length);
    EXPECT_EQ(body_decodes<NameBody>(payload), length <= kMaxNameBytes) << length;
  }
}

ClaimBody sample_claim() {
  ClaimBody body{0x01020304, ClaimAnswer::kGood, {}, {}};
  body.flow = {Flow::kIpv6, 0x1112, 0x2122, 0, {}, {}};
  for (std::uint8_t i = 0; i < 16; ++i) {
    body.flow.local[i] = static_cast<std::uint8_t>(0x30 + i);
    body.flow.remote[i] = static_cast<std::uint8_t>(0x50 + i);
    body.token[i] = static_cast<std::uint8_t>(0x70 + i);
  }
  return body;
}

TEST(WireClaimBody, EncodesToTheseBytesAndReadsThemBack) {
  Bytes payload(kClaimBodyBytes);
  ASSERT_EQ(encode(sample_claim(), payload.data()), kClaimBodyBytes);
  EXPECT_EQ(to_hex(payload),
            to_hex(hex("01020304 01 06 1112 2122"
                       "303132333435363738393a3b3c3d3e3f"
                       "505152535455565758595a5b5c5d5e5f"
                       "707172737475767778797a7b7c7d7e7f")));
  ClaimBody out{};
  ASSERT_TRUE(decode(payload, out));
  EXPECT_EQ(out.request, 0x01020304u);
  EXPECT_EQ(out.answer, ClaimAnswer::kGood);
  EXPECT_EQ(out.flow, sample_claim().flow);
  EXPECT_EQ(out.token, sample_claim().token);
}

TEST(WireClaimBody, RefusesOtherLengthsAnswersAndVersionsOfIp) {
  Bytes payload(kClaimBodyBytes);
  encode(sample_claim(), payload.data());
  for (std::size_t length = 0; length < payload.size(); ++length) {
    EXPECT_FALSE(body_decodes<ClaimBody>(std::span(payload).first(length))) << length;
  }
  for (unsigned value = 0; value < 256; ++value) {
    Bytes other = payload;
    other[4] = static_cast<std::byte>(value);
    EXPECT_EQ(body_decodes<ClaimBody>(other), value <= 2) << value;
    other = payload;
    other[5] = static_cast<std::byte>(value);
    const unsigned version = value & 0x7f;  // the bit above says UDP
    EXPECT_EQ(body_decodes<ClaimBody>(other), version == 4 || version == 6) << value;
  }
  payload.push_back(std::byte{0});
  EXPECT_FALSE(body_decodes<ClaimBody>(payload));
}

TEST(WireRdmaHeader, ReadsBackWhatItWroteAndRefusesLess) {
  Bytes payload(kRdmaBytes);
  encode(RdmaHeader{0x0123456789abcdef, 77, 5}, payload.data());
  RdmaHeader out{};
  ASSERT_TRUE(decode(payload, out));
  EXPECT_EQ(out.address, 0x0123456789abcdefu);
  EXPECT_EQ(out.handle, 77u);
  EXPECT_EQ(out.reserved, 0u);
  for (std::size_t length = 0; length < kRdmaBytes; ++length) {
    EXPECT_FALSE(body_decodes<RdmaHeader>(std::span(payload).first(length)));
  }
}

// ---------------------------------------------------------------------------- hostile input

// Every accepted frame must satisfy this, whatever the bytes were.
void check_accepted(const Bytes& frame, const Decoded& d) {
  ASSERT_GE(frame.size(), kBefore + d.header.payload_length);
  ASSERT_NE(kKnownTypes >> static_cast<unsigned>(d.header.type) & 1, 0u);
  if (d.header.type == Type::kData) {
    ASSERT_EQ(d.header.flags & ~kKnownFlags, 0);
    ASSERT_GE(d.header.payload_length, rdma_bytes(d.header.flags));
    ASSERT_LE(d.header.offset + (d.header.payload_length - rdma_bytes(d.header.flags)),
              std::size_t{d.header.message_length});
  } else {
    ASSERT_EQ(d.header.flags, 0);
  }
}

TEST(Wire, SurvivesRandomBytes) {
  SimRandom random(2);
  unsigned accepted = 0;
  for (int i = 0; i < 300000; ++i) {
    Bytes frame(random.below(120));
    for (std::byte& b : frame) b = static_cast<std::byte>(random.next());
    if (frame.size() > 17 && random.below(4) != 0) {  // else hardly any passes the first checks
      frame[14] = std::byte{kVersion};
      frame[15] = static_cast<std::byte>(random.below(20));
      if (random.below(2) != 0) {
        frame[16] = std::byte{0};
        frame[17] &= frame[15] == std::byte{1} ? std::byte{0x3f} : std::byte{0};
      }
      if (frame.size() > 52 && random.below(2) != 0) frame[50] = std::byte{0};
    }
    Decoded d{};
    if (decode_exactly(frame, d) == Malformed::kNone) {
      ++accepted;
      check_accepted(frame, d);
    }
    body_decodes<ConnectBody>(frame);
    body_decodes<NameBody>(frame);
    body_decodes<RdmaHeader>(frame);
  }
  EXPECT_GT(accepted, 1000u);
}

TEST(Wire, SurvivesMutationsOfGoodFrames) {
  SimRandom random(3);
  std::vector<Bytes> good;
  for (const unsigned type : known_types()) good.push_back(make_frame(sample(Type(type))));
  good.push_back(make_frame(sample(Type::kConnectRequest), encoded(sample_connect())));
  good.push_back(make_frame(sample(Type::kNameQuery), encoded(sample_name("host-b"))));
  good.push_back(make_frame(data(kFlagFirst | kOpRdmaWrite, 200, 0), Bytes(100)));
  good.push_back(make_frame(data(kFlagFirst | kFlagLast | kOpRdmaReadRequest, 9, 0), Bytes(16)));
  good.push_back(make_frame(sample(Type::kAck), Bytes(32)));
  unsigned accepted = 0;
  for (int i = 0; i < 300000; ++i) {
    Bytes frame = good[random.below(good.size())];
    for (std::uint64_t n = 1 + random.below(4); n != 0; --n) {
      const std::size_t at = random.below(frame.size());
      switch (random.below(3)) {
        case 0:
          frame[at] ^= static_cast<std::byte>(1u << random.below(8));
          break;
        case 1:
          frame[at] = static_cast<std::byte>(random.next());
          break;
        default:
          frame.resize(1 + random.below(frame.size() + 8));
          break;
      }
    }
    Decoded d{};
    if (decode_exactly(frame, d) == Malformed::kNone) {
      ++accepted;
      check_accepted(frame, d);
    }
    if (frame.size() > kBefore) {
      body_decodes<ConnectBody>(std::span(frame).subspan(kBefore));
      body_decodes<NameBody>(std::span(frame).subspan(kBefore));
    }
  }
  EXPECT_GT(accepted, 10000u);
}

}  // namespace
}  // namespace viaduct::wire
