#include "kagent/tools/viadump/endpoints.h"

#include <gtest/gtest.h>

#include "kagent/tools/viadump/filter.h"

namespace viaduct::dump {
namespace {

constexpr MacAddress kA{2, 0, 0, 0, 0, 1}, kB{2, 0, 0, 0, 0, 2}, kC{2, 0, 0, 0, 0, 3};

wire::Decoded frame(wire::Type type, const MacAddress& from, const MacAddress& to, std::uint32_t vi) {
  wire::Decoded out{};
  out.header.type = type;
  out.header.vi = vi;
  out.source = from;
  out.destination = to;
  return out;
}

class EndpointsTest : public ::testing::Test {
 protected:
  // A's VI 5 and B's VI 9.
  void accept() {
    wire::ConnectBody body{};
    body.vi = 9;
    payload_.resize(wire::kConnectBodyMaxBytes);
    payload_.resize(wire::encode(body, payload_.data()));
    wire::Decoded decoded = frame(wire::Type::kConnectAccept, kB, kA, 5);
    decoded.payload = payload_;
    endpoints_.learn(decoded);
  }
  bool fits(const Filter& filter, const wire::Decoded& decoded) const {
    Reading reading;
    reading.decoded = decoded;
    reading.has_header = true;
    return filter.fits(reading, endpoints_);
  }

  Endpoints endpoints_;
  std::vector<std::byte> payload_;
};

TEST_F(EndpointsTest, KnowsTheSendersViFromTheAcceptance) {
  const wire::Decoded to_b = frame(wire::Type::kData, kA, kB, 9);
  EXPECT_FALSE(endpoints_.ends_of(to_b).from.has_value());
  accept();
  EXPECT_EQ(endpoints_.ends_of(to_b).from, 5u);
  EXPECT_EQ(endpoints_.ends_of(to_b).to, 9u);
  EXPECT_EQ(endpoints_.ends_of(frame(wire::Type::kAck, kB, kA, 5)).from, 9u);
  EXPECT_FALSE(endpoints_.ends_of(frame(wire::Type::kData, kC, kB, 9)).from.has_value()) << "another host";
  EXPECT_EQ(endpoints_.comment_on(to_b), "VI 5 to VI 9");
}

TEST_F(EndpointsTest, ANewConnectionTakesThePlaceOfTheOldOne) {
  accept();
  endpoints_.connect({kC, 1}, {kB, 9});
  EXPECT_FALSE(endpoints_.ends_of(frame(wire::Type::kData, kA, kB, 9)).from.has_value());
  EXPECT_EQ(endpoints_.ends_of(frame(wire::Type::kData, kC, kB, 9)).from, 1u);
}

TEST_F(EndpointsTest, NamesPrograms) {
  accept();
  endpoints_.set_program({kA, 5}, {1234, "viaping"});
  EXPECT_EQ(endpoints_.comment_on(frame(wire::Type::kData, kA, kB, 9)), "VI 5 of viaping (1234) to VI 9");
  EXPECT_EQ(endpoints_.comment_on(frame(wire::Type::kData, kB, kA, 5)), "VI 9 to VI 5 of viaping (1234)");
  EXPECT_EQ(endpoints_.comment_on(frame(wire::Type::kData, kC, kA, 5)), "to VI 5 of viaping (1234)");
  EXPECT_EQ(endpoints_.comment_on(frame(wire::Type::kNameQuery, kC, kA, 0xffffffff)), "");
}

TEST_F(EndpointsTest, KnowsTheDirectionOfLocalAddresses) {
  endpoints_.add_local(kA);
  EXPECT_EQ(endpoints_.direction_of(frame(wire::Type::kData, kA, kB, 9)), Direction::kOut);
  EXPECT_EQ(endpoints_.direction_of(frame(wire::Type::kData, kB, kA, 5)), Direction::kIn);
  EXPECT_EQ(endpoints_.direction_of(frame(wire::Type::kData, kB, kC, 5)), Direction::kUnknown);
}

TEST_F(EndpointsTest, FiltersByViAtEitherEnd) {
  accept();
  Filter filter;
  EXPECT_TRUE(fits(filter, frame(wire::Type::kData, kA, kB, 9)));
  filter.vis = {5};
  EXPECT_TRUE(fits(filter, frame(wire::Type::kData, kA, kB, 9)));
  EXPECT_TRUE(fits(filter, frame(wire::Type::kData, kB, kA, 5)));
  EXPECT_FALSE(fits(filter, frame(wire::Type::kData, kB, kA, 6)));
  filter.vis = {6, 9};
  EXPECT_TRUE(fits(filter, frame(wire::Type::kData, kB, kA, 5)));
  EXPECT_TRUE(fits(filter, frame(wire::Type::kData, kB, kA, 6)));
}

TEST_F(EndpointsTest, FiltersByHostTypeAndProcess) {
  accept();
  endpoints_.set_program({kA, 5}, {1234, "viaping"});
  Filter filter;
  filter.hosts = {kA};
  EXPECT_TRUE(fits(filter, frame(wire::Type::kData, kA, kB, 9)));
  EXPECT_FALSE(fits(filter, frame(wire::Type::kData, kC, kB, 9)));
  filter.types = {wire::Type::kAck};
  EXPECT_FALSE(fits(filter, frame(wire::Type::kData, kA, kB, 9)));
  EXPECT_TRUE(fits(filter, frame(wire::Type::kAck, kB, kA, 5)));
  filter.process = 1234;
  EXPECT_TRUE(fits(filter, frame(wire::Type::kAck, kB, kA, 5)));
  filter.process = 1235;
  EXPECT_FALSE(fits(filter, frame(wire::Type::kAck, kB, kA, 5)));
}

TEST_F(EndpointsTest, FiltersByProcessAtEitherEndOfAHost) {
  accept();
  endpoints_.set_program({kA, 5}, {1234, "client"});
  endpoints_.set_program({kB, 9}, {1235, "server"});
  for (const std::uint32_t process : {1234u, 1235u, 1236u}) {
    Filter filter;
    filter.process = process;
    EXPECT_EQ(fits(filter, frame(wire::Type::kData, kA, kB, 9)), process != 1236) << process;
    EXPECT_EQ(fits(filter, frame(wire::Type::kData, kB, kA, 5)), process != 1236) << process;
  }
}

TEST_F(EndpointsTest, FiltersWhatIsRefused) {
  Filter filter;
  filter.only_refused = true;
  EXPECT_FALSE(fits(filter, frame(wire::Type::kData, kA, kB, 9)));
  Reading reading;
  reading.refusal = Refusal::kShort;
  EXPECT_TRUE(filter.fits(reading, endpoints_));
  filter.vis = {1};
  EXPECT_FALSE(filter.fits(reading, endpoints_)) << "its VI is not known";
}

TEST(FilterWords, AreReadInEitherCase) {
  wire::Type type{};
  EXPECT_TRUE(parse_type("connect_request", type) && type == wire::Type::kConnectRequest);
  EXPECT_TRUE(parse_type("Connect-Held", type) && type == wire::Type::kConnectHeld);
  EXPECT_FALSE(parse_type("connect", type));
  MacAddress address{};
  EXPECT_TRUE(parse_address("02:00:00:00:00:01", address) && address == kA);
  EXPECT_FALSE(parse_address("02:00:00:00:00", address));
  EXPECT_FALSE(parse_address("02:00:00:00:00:01x", address));
  EXPECT_FALSE(parse_address("", address));
}

}  // namespace
}  // namespace viaduct::dump
