#include "sovia/process/options.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace viaduct::sovia {
namespace {

std::map<std::string, std::string> g_environment;
std::vector<std::string> g_messages;

const char* variable(const char* name) {
  const auto found = g_environment.find(name);
  return found == g_environment.end() ? nullptr : found->second.c_str();
}

void complain(const char* message) { g_messages.emplace_back(message); }

Options read(std::map<std::string, std::string> environment) {
  g_environment = std::move(environment);
  g_messages.clear();
  return read_options(variable, complain);
}

TEST(Options, AreThePapersByDefault) {
  const Options options = read({});
  EXPECT_EQ(options.lanes, 1u);
  EXPECT_EQ(options.window, 32u);
  EXPECT_EQ(options.ack_threshold, 16u);
  EXPECT_EQ(options.handling, Handling::kSingle);
  EXPECT_EQ(options.combine_timer + options.strict_window, 0u);
  EXPECT_EQ(options.join + options.pack + options.redirect + options.registration_cache, 4u);
  EXPECT_TRUE(g_messages.empty());
}

TEST(Options, AreTakenFromTheirVariables) {
  const Options options = read({{"SOVIA_LANES", "0"}, {"SOVIA_WINDOW", "8"}, {"SOVIA_SPIN_US", "0"},
                                {"SOVIA_ACK_THRESHOLD", "2"}});
  EXPECT_EQ(options.lanes, 0u);
  EXPECT_EQ(options.window, 8u);
  EXPECT_EQ(options.spin_us, 0u);
  EXPECT_EQ(options.ack_threshold, 2u);
  EXPECT_TRUE(g_messages.empty());
}

TEST(Options, KnowRoutes) {
  EXPECT_EQ(read({}).route, kRouteAuto);
  EXPECT_EQ(read({{"SOVIA_ROUTE", "auto"}}).route, kRouteAuto);
  EXPECT_EQ(read({{"SOVIA_ROUTE", "lane"}}).route, kRouteLane);
  EXPECT_EQ(read({{"SOVIA_ROUTE", "kernel"}}).route, kRouteKernel);
  EXPECT_EQ(read({{"SOVIA_ROUTE", "pure"}}).route, kRoutePure);
  EXPECT_TRUE(g_messages.empty());
  for (const char* const bad : {"0", "1", "Lane", "lane ", "x"}) {
    EXPECT_EQ(read({{"SOVIA_ROUTE", bad}}).route, kRouteAuto) << bad;
    ASSERT_EQ(g_messages.size(), 1u) << bad;
    EXPECT_EQ(g_messages[0], std::string("SOVIA_ROUTE=") + bad + ": not auto, lane, kernel or pure; auto is used");
  }
  EXPECT_EQ(read({{"SOVIA_CONFIG", "DACKS"}}).route, kRoutePure) << "a configuration of the papers measures lanes";
  EXPECT_EQ(read({{"SOVIA_CONFIG", "DACKS"}, {"SOVIA_ROUTE", "auto"}}).route, kRouteAuto);
}

TEST(Options, KnowSuffixesOfBytes) {
  EXPECT_EQ(read({{"SOVIA_COPY_LIMIT", "4k"}}).copy_limit, 4096u);
  EXPECT_EQ(read({{"SOVIA_UPGRADE_BYTES", "1M"}}).upgrade_bytes, 1u << 20);
  EXPECT_EQ(read({{"SOVIA_COPY_LIMIT", "all"}}).copy_limit, kCopyAll);
  EXPECT_TRUE(g_messages.empty());
  read({{"SOVIA_WINDOW", "1k"}});
  EXPECT_EQ(g_messages.size(), 1u);
}

TEST(Options, ThatAreBadAreToldOfAndNotUsed) {
  for (const char* const bad : {"x", "-1", "0", "257", "3x", "99999999999999999999", " 4"}) {
    const Options options = read({{"SOVIA_WINDOW", bad}});
    EXPECT_EQ(options.window, 32u) << bad;
    ASSERT_EQ(g_messages.size(), 1u) << bad;
    EXPECT_NE(g_messages[0].find("SOVIA_WINDOW"), std::string::npos);
    EXPECT_NE(g_messages[0].find("32 is used"), std::string::npos);
  }
}

TEST(Options, ThatAreEmptyAreNotSet) {
  EXPECT_EQ(read({{"SOVIA_WINDOW", ""}, {"SOVIA_CONFIG", ""}}).window, 32u);
  EXPECT_TRUE(g_messages.empty());
}

TEST(Options, OfLongBadValuesAreCutInMessages) {
  read({{"SOVIA_WINDOW", std::string(10000, 'x')}});
  ASSERT_EQ(g_messages.size(), 1u);
  EXPECT_LT(g_messages[0].size(), 200u);
}

TEST(Options, KeepTheThresholdWithinTheWindow) {
  EXPECT_EQ(read({{"SOVIA_WINDOW", "4"}}).ack_threshold, 4u);
}

struct ConfigurationRow {
  const char* name;
  Handling handling;
  std::uint64_t copy_limit, window, threshold, combine;
};

TEST(Options, HaveEachRowOfTheTable) {
  const ConfigurationRow rows[] = {
      {"NOTIFY", Handling::kNotify, kRegisterAll, 1, 1, 0},
      {"HANDLER", Handling::kHandler, kRegisterAll, 1, 1, 0},
      {"SINGLE", Handling::kSingle, kRegisterAll, 1, 1, 0},
      {"REG", Handling::kSingle, kRegisterAll, 1, 1, 0},
      {"COPY", Handling::kSingle, kCopyAll, 1, 1, 0},
      {"HYBRID", Handling::kSingle, 2048, 1, 1, 0},
      {"BASE", Handling::kSingle, 2048, 1, 1, 0},
      {"FLOWCNTL", Handling::kSingle, 2048, 32, 1, 0},
      {"DACKS", Handling::kSingle, 2048, 32, 16, 0},
      {"COMBINE", Handling::kSingle, 2048, 32, 16, 1},
      {"DS", Handling::kSingle, kRegisterAll, 32, 1, 0},
      {"DS_DA", Handling::kSingle, kRegisterAll, 32, 16, 0},
      {"BCOPY", Handling::kSingle, kCopyAll, 32, 16, 0},
      {"ZCOPY", Handling::kSingle, kCopyAll, 32, 16, 0},
  };
  for (const ConfigurationRow& row : rows) {
    const Options options = read({{"SOVIA_CONFIG", row.name}});
    EXPECT_STREQ(options.config, row.name);
    EXPECT_EQ(options.handling, row.handling) << row.name;
    EXPECT_EQ(options.copy_limit, row.copy_limit) << row.name;
    EXPECT_EQ(options.window, row.window) << row.name;
    EXPECT_EQ(options.ack_threshold, row.threshold) << row.name;
    EXPECT_EQ(options.combine, row.combine) << row.name;
    // Features that the papers do not describe are off.
    EXPECT_EQ(options.join + options.pack + options.redirect + options.registration_cache, 0u) << row.name;
    EXPECT_EQ(options.combine_timer + options.strict_window, 2u) << row.name;
    EXPECT_EQ(options.combine_us, 100'000u) << row.name;
    EXPECT_TRUE(g_messages.empty());
  }
}

TEST(Options, HaveMessagesWrittenToTheReceiversBufferInZcopyAlone) {
  EXPECT_EQ(read({}).rendezvous, kCopyAll);
  EXPECT_EQ(read({{"SOVIA_CONFIG", "BCOPY"}}).messages, 0u);
  EXPECT_EQ(read({{"SOVIA_CONFIG", "ZCOPY"}}).messages, 1u);
  EXPECT_EQ(read({{"SOVIA_CONFIG", "ZCOPY"}}).rendezvous, kZcopyFrom);
}

TEST(Options, ComeBeforeTheConfiguration) {
  const Options options = read({{"SOVIA_CONFIG", "FLOWCNTL"}, {"SOVIA_WINDOW", "4"}});
  EXPECT_EQ(options.window, 4u);
  EXPECT_EQ(options.ack_threshold, 1u);
}

TEST(Options, SwitchEachPartOfAConfigurationByItself) {
  const char* const on[] = {"SOVIA_JOIN", "SOVIA_PACK", "SOVIA_REDIRECT", "SOVIA_REGISTRATION_CACHE"};
  for (const char* const name : on) {
    const Options options = read({{"SOVIA_CONFIG", "BASE"}, {name, "1"}});
    EXPECT_EQ(options.join + options.pack + options.redirect + options.registration_cache, 1u) << name;
    EXPECT_EQ(read({{name, "0"}}).join + read({{name, "0"}}).pack + read({{name, "0"}}).redirect +
                  read({{name, "0"}}).registration_cache,
              3u)
        << name;
  }
  for (const char* const name : {"SOVIA_COMBINE_TIMER", "SOVIA_STRICT_WINDOW"}) {
    const Options options = read({{"SOVIA_CONFIG", "BASE"}, {name, "0"}});
    EXPECT_EQ(options.combine_timer + options.strict_window, 1u) << name;
    EXPECT_EQ(read({{name, "1"}}).combine_timer + read({{name, "1"}}).strict_window, 1u) << name;
  }
}

TEST(Options, KnowNoOtherConfigurations) {
  const Options options = read({{"SOVIA_CONFIG", "combine"}});
  EXPECT_STREQ(options.config, "");
  EXPECT_EQ(options.window, 32u);
  EXPECT_EQ(g_messages.size(), 1u);
}

}  // namespace
}  // namespace viaduct::sovia
