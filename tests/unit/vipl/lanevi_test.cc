// lanevid's parts that need no network: addresses, messages, routes, options.
#include <gtest/gtest.h>

#include <vector>

#include "vipl/lanevi/counters.h"
#include "vipl/lanevi/ip_address.h"
#include "vipl/lanevi/message.h"
#include "vipl/lanevi/options.h"
#include "vipl/lanevi/routes.h"

namespace viaduct::lanevi {

// The routes only compare peers.
class Peer {};

namespace {

IpAddress at(const std::string& text) { return parse_address(text).value(); }
IpPrefix in(const std::string& text) { return parse_prefix(text).value(); }

TEST(IpAddress, IsWrittenAsItWasRead) {
  for (const char* text :
       {"10.1.2.3", "255.255.255.255", "fd99::1", "::1", "fe80::200:ff:fe00:1"}) {
    EXPECT_EQ(text_of(at(text)), text);
  }
  EXPECT_TRUE(at("10.1.2.3").is_ipv4());
  EXPECT_FALSE(at("fd99::1").is_ipv4());
  for (const char* text : {"", "10.1.2", "10.1.2.256", "fd99::1::2", "host", "10.1.2.3/24"}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
}

TEST(IpAddress, GroupsAreForAll) {
  for (const char* text : {"224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1"}) {
    EXPECT_TRUE(at(text).is_group()) << text;
  }
  for (const char* text : {"10.1.2.255", "223.255.255.255", "240.0.0.1", "fe80::1"}) {
    EXPECT_FALSE(at(text).is_group()) << text;
  }
}

TEST(IpPrefix, HasItsBitsAndItsBroadcastAddress) {
  EXPECT_EQ(in("10.1.2.3/20").bits, 20u);
  EXPECT_EQ(in("10.1.2.3").bits, 32u);
  EXPECT_EQ(in("fd99::1").bits, 128u);
  EXPECT_EQ(in("10.1.2.3/20").broadcast(), at("10.1.15.255"));
  EXPECT_EQ(in("10.1.2.3/30").broadcast(), at("10.1.2.3"));
  EXPECT_FALSE(in("10.1.2.3/31").broadcast());
  EXPECT_FALSE(in("fd99::1/64").broadcast());
  for (const char* text :
       {"10.1.2.3/33", "fd99::1/129", "10.1.2.3/", "10.1.2.3/2x", "10.1.2.3/-1"}) {
    EXPECT_FALSE(parse_prefix(text)) << text;
  }
}

TEST(Message, EndsOfPackets) {
  std::vector<std::uint8_t> four(kPacketHeader + 20);
  four[kPacketHeader] = 0x45;
  for (std::uint8_t i = 0; i < 8; ++i) four[kPacketHeader + 12 + i] = i;
  const auto ends = ends_of(four.data(), four.size());
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->source, at("0.1.2.3"));
  EXPECT_EQ(ends->destination, at("4.5.6.7"));

  std::vector<std::uint8_t> six(kPacketHeader + 40);
  six[kPacketHeader] = 0x60;
  six[kPacketHeader + 8] = six[kPacketHeader + 24] = 0xfd;
  six[kPacketHeader + 23] = 1;
  six[kPacketHeader + 39] = 2;
  const auto long_ends = ends_of(six.data(), six.size());
  ASSERT_TRUE(long_ends);
  EXPECT_EQ(long_ends->source, at("fd00::1"));
  EXPECT_EQ(long_ends->destination, at("fd00::2"));
}

TEST(Message, NothingIsReadOfWhatIsTooShort) {
  std::vector<std::uint8_t> bytes(kPacketHeader + 39, 0x45);
  EXPECT_FALSE(ends_of(bytes.data(), kPacketHeader + 19));
  EXPECT_FALSE(ends_of(bytes.data(), 0));
  bytes[kPacketHeader] = 0x60;
  EXPECT_FALSE(ends_of(bytes.data(), bytes.size()));
  bytes[kPacketHeader] = 0x50;
  EXPECT_FALSE(ends_of(bytes.data(), bytes.size()));
}

TEST(Hello, IsReadAsItWasWritten) {
  Hello hello{true, false, true, {at("10.0.0.1"), at("fd99::1")}};
  std::uint8_t bytes[Hello::kMostBytes];
  const std::size_t length = hello.encode(bytes);
  const auto read = Hello::decode(bytes, length);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->wants_answer);
  EXPECT_FALSE(read->heard);
  EXPECT_TRUE(read->takes_uncut_udp);
  EXPECT_EQ(read->addresses, hello.addresses);
  for (std::size_t shorter = 0; shorter < length; ++shorter) {
    EXPECT_FALSE(Hello::decode(bytes, shorter)) << shorter;
  }
  bytes[1] = 255;
  EXPECT_FALSE(Hello::decode(bytes, length));
}

TEST(Hello, HasRoomForSoManyAddresses) {
  Hello hello;
  hello.addresses.resize(Hello::kMostAddresses + 5, at("10.0.0.1"));
  std::uint8_t bytes[Hello::kMostBytes];
  ASSERT_EQ(hello.encode(bytes), sizeof bytes);
  EXPECT_EQ(Hello::decode(bytes, sizeof bytes)->addresses.size(), Hello::kMostAddresses);
}

TEST(Routes, TheFirstKeepsAnAddress) {
  Peer b, c;
  Routes routes;
  routes.set_own({in("10.0.0.1/24")});
  EXPECT_EQ(routes.set(&b, {at("10.0.0.2"), at("fd99::2")}), nullptr);
  const std::vector<IpAddress> more{at("10.0.0.3"), at("10.0.0.2")};
  const IpAddress* const refused = routes.set(&c, more);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(*refused, at("10.0.0.2"));
  EXPECT_EQ(routes.find(at("10.0.0.2")), &b);
  EXPECT_EQ(routes.find(at("10.0.0.3")), &c);
  EXPECT_EQ(routes.find(at("10.0.0.4")), nullptr);
  EXPECT_EQ(routes.set(&b, {at("10.0.0.4")}), nullptr);
  EXPECT_EQ(routes.find(at("10.0.0.2")), nullptr);
  EXPECT_EQ(routes.set(&c, more), nullptr);
  EXPECT_EQ(routes.find(at("10.0.0.2")), &c);
}

TEST(Routes, NobodyHasTheOwnAddressesOrThoseOfGroups) {
  Peer b;
  Routes routes;
  EXPECT_TRUE(routes.set_own({in("10.0.0.1/24")}));
  EXPECT_FALSE(routes.set_own({in("10.0.0.1/24")}));
  for (const char* text : {"10.0.0.1", "10.0.0.255", "224.0.0.1", "ff02::1"}) {
    const std::vector<IpAddress> one{at(text)};
    EXPECT_NE(routes.set(&b, one), nullptr) << text;
    EXPECT_EQ(routes.find(one[0]), nullptr) << text;
  }
  EXPECT_TRUE(routes.is_group(at("10.0.0.255")));
  EXPECT_FALSE(routes.is_group(at("10.0.1.255")));
  routes.set(&b, {at("10.0.0.7")});
  EXPECT_TRUE(routes.set_own({in("10.0.0.7/16")}));
  EXPECT_EQ(routes.find(at("10.0.0.7")), nullptr);
  EXPECT_TRUE(routes.is_group(at("10.0.255.255")));
}

int parse(std::vector<const char*> words, Options& options) {
  words.insert(words.begin(), "lanevid");
  return parse_options(static_cast<int>(words.size()), const_cast<char**>(words.data()), options);
}

TEST(Options, AddressesOfOneHostAreOnePeer) {
  Options options;
  ASSERT_EQ(parse({"--peer", "10.0.0.2=b", "--peer", "fd99::2=b", "--peer", "10.0.0.3=c",
                   "--address", "10.0.0.1/24", "--address", "fd99::1/64", "--no-offload"},
                  options),
            -1);
  ASSERT_EQ(options.peers.size(), 2u);
  EXPECT_EQ(options.peers[0].host, "b");
  EXPECT_EQ(options.peers[0].addresses.size(), 2u);
  EXPECT_EQ(options.peers[1].addresses, std::vector{at("10.0.0.3")});
  EXPECT_EQ(options.addresses.size(), 2u);
  EXPECT_FALSE(options.offload);
}

TEST(Options, WhatMakesNoSenseIsRefused) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"--peer", "10.0.0.2"},
           {"--peer", "10.0.0.2="},
           {"--peer", "b=10.0.0.2"},
           {"--peer", "10.0.0.2=b", "--peer", "10.0.0.2=c"},
           {"--address", "10.0.0.1/24", "--address", "10.0.1.1/24"},
           {"--address", "10.0.0.1/40"},
           {"--mtu", "1279"},
           {"--mtu", "65522"},
           {"--interface", "sixteen-letters-"},
           {"--network", ""},
           {"--network", "a-name-that-is-much-too-long"},
           {"--what"}}) {
    Options options;
    EXPECT_EQ(parse(words, options), 2) << words[0] << " " << words.back();
  }
}

TEST(Counters, OneLineForEachRow) {
  Counters counters;
  counters.drop_unknown = 3;
  counters.peers["b"].packets_sent = 7;
  const std::string text = counters.text();
  EXPECT_NE(text.find("lanevi_drop_unknown 3\n"), std::string::npos);
  EXPECT_NE(text.find("lanevi_packets_sent{peer=\"b\"} 7\n"), std::string::npos);
  EXPECT_NE(text.find("lanevi_connected{peer=\"b\"} 0\n"), std::string::npos);
}

}  // namespace
}  // namespace viaduct::lanevi
