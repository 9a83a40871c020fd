// viabench's computations: medians, the best of several, verdicts.
#include <gtest/gtest.h>

#include "examples/common/nic.h"
#include "examples/viabench/bars.h"
#include "examples/viabench/case.h"
#include "examples/viabench/json.h"
#include "examples/viabench/results.h"

namespace viabench {
namespace {

Result measured(Case c, const std::vector<double>& values) {
  Result result{std::move(c), {}, {}};
  for (const double v : values) result.add({{figure_of(result.of.what).name, v}});
  return result;
}

Case latency(const char* transport, const char* wait, const char* level, const char* offload) {
  return {"latency", transport, wait, level, offload, 4, 1000, 0};
}

const Verdict& verdict_on(const std::vector<Verdict>& all, const std::string& text) {
  for (const Verdict& v : all) {
    if (v.text == text) return v;
  }
  throw std::out_of_range(text);
}

TEST(Case, ComesBackAsItWasSent) {
  const Case c{"idle", "granted", "poll", "rr", "-", 4, 2000, 256};
  const Case back = Case::decode(c.encode());
  EXPECT_EQ(back.encode(), c.encode());
  EXPECT_EQ(back.id(), "idle/granted/poll/rr/4/256");
}

TEST(Case, IsRefusedWhenItIsNone) {
  for (const char* line :
       {"", "latency", "latency hosted poll rd - 4 0 0", "latency hosted poll rd - 99999999 10 0",
        "idle hosted poll rd - 4 10 99999999", "latency hosted poll rd - x y z"}) {
    EXPECT_THROW(Case::decode(line), via::Failure) << line;
  }
}

TEST(Result, HasMedianAndQuartiles) {
  const Result r = measured(latency("raw", "-", "-", "-"), {5, 1, 4, 2, 3});
  const auto s = r.summary();
  ASSERT_TRUE(s);
  EXPECT_EQ(s->median, 3);
  EXPECT_EQ(s->q1, 2);
  EXPECT_EQ(s->q3, 4);
  EXPECT_EQ(s->min, 1);
  EXPECT_EQ(s->max, 5);
  EXPECT_EQ(measured(latency("raw", "-", "-", "-"), {1, 2}).summary()->median, 1.5);
  EXPECT_FALSE(measured(latency("raw", "-", "-", "-"), {}).summary());
}

TEST(Result, OfAStreamIsWhatArrivesInTheSendersTime) {
  Result r{{"bandwidth", "hosted", "poll", "rd", "-", 1000, 100, 0}, {}, {}};
  r.add({{"seconds", 0.5},
         {"bytes", 1e9},
         {"messages", 1e6},
         {"near_cpu_ns", 2e9},
         {"far_agent_ns", 1e9}});
  EXPECT_DOUBLE_EQ(r.summary()->median, 16);
  EXPECT_DOUBLE_EQ(r.summary("messages_s")->median, 2e6);
  EXPECT_DOUBLE_EQ(r.summary("near_cpu_ns_byte")->median, 2);
  EXPECT_DOUBLE_EQ(r.summary("cpu_ns_byte")->median, 3);
}

TEST(Results, BestIsTheLowestTimeAndTheHighestRate) {
  Results all;
  all.all.push_back(measured(latency("tcp", "poll", "-", "on"), {4}));
  all.all.push_back(measured(latency("tcp", "block", "-", "on"), {20}));
  all.all.push_back(measured({"connect", "tcp", "poll", "-", "on", 0, 10, 0}, {100}));
  all.all.push_back(measured({"connect", "tcp", "block", "-", "on", 0, 10, 0}, {200}));
  EXPECT_EQ(all.best("latency/tcp/block/on/4,latency/tcp/poll/on/4"), &all.all[0]);
  EXPECT_EQ(all.best("connect/tcp/"), &all.all[3]);
  EXPECT_EQ(all.best("latency/tcp/poll/on/40"), nullptr);
}

TEST(Bars, AreMetOrMissedOrNotMeasured) {
  Results all;
  all.mtu = 1500;
  all.all.push_back(measured(latency("raw", "-", "-", "-"), {1, 2, 3}));
  all.all.push_back(measured(latency("tcp", "poll", "-", "on"), {4}));
  all.all.push_back(measured(latency("hosted", "poll", "rd", "-"), {5}));
  all.all.push_back(measured(latency("granted", "poll", "rd", "-"), {2.6, 2.8}));
  const std::vector<Verdict> verdicts = judge(all);

  const Verdict& met = verdict_on(verdicts, "hosted, polling, 4 B one way / TCP spinning");
  EXPECT_STREQ(met.word(), "met");
  EXPECT_DOUBLE_EQ(*met.is, 1.25);
  EXPECT_STREQ(verdict_on(verdicts, "granted, polling, 4 B one way / TCP spinning").word(),
               "missed");
  EXPECT_STREQ(verdict_on(verdicts, "granted, connections / TCP").word(), "not measured");
}

TEST(Bars, OfOneMtuAreNotJudgedAtAnother) {
  const char* const bar = "hosted, 32 KB stream, MTU 1500 / raw AF_XDP";
  Results all;
  all.all.push_back(measured({"bandwidth", "raw", "-", "-", "-", 1500, 10, 0}, {10}));
  all.all.push_back(measured({"bandwidth", "hosted", "block", "rd", "-", 32768, 10, 0}, {8}));
  all.mtu = 1500;
  EXPECT_STREQ(verdict_on(judge(all), bar).word(), "met");
  all.mtu = 3498;
  EXPECT_STREQ(verdict_on(judge(all), bar).word(), "not measured");
}

TEST(Json, QuotesWhatFailuresSay) {
  Results all;
  all.all.push_back({latency("hosted", "poll", "rd", "-"), {}, {"no \"agent\"\t\\"}});
  EXPECT_NE(json(all).find(R"("failures":["no \"agent\"\u0009\\"])"), std::string::npos);
}

}  // namespace
}  // namespace viabench
