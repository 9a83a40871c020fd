// Messages arrive, in order, however late they are received.
#include <atomic>
#include <chrono>
#include <cstring>

#include "tests/fabric/ends.h"

namespace {

// As many operations as the endpoint was made for are taken, of all kinds, and keep their order.
TEST(Message, AReceiverThatHasPostedNothingIsWaitedFor) {
  constexpr unsigned kSize = 8;
  Pair pair(0, kSize);
  Buffer out(2'000'000, 5);
  Buffer in(kSize * out.size());
  const auto length = [&](unsigned i) { return i == 3 ? out.size() : 64 + i; };
  for (unsigned i = 0; i + 1 < kSize; ++i) {
    ASSERT_EQ(fi_send(pair.a.ep, out.data(), length(i), out.desc(), 0, &out), 0);
  }
  unsigned char last[64] = {7};
  ASSERT_EQ(fi_inject(pair.a.ep, last, sizeof last, 0), 0);
  last[0] = 8;  // it is the program's again
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(fi_send(pair.a.ep, out.data(), 64, out.desc(), 0, nullptr), -FI_EAGAIN);
  }
  for (unsigned i = 0; i < kSize; ++i) {
    ASSERT_EQ(fi_recv(pair.b.ep, in.data() + i * out.size(), out.size(), in.desc(), 0, &in), 0);
  }
  for (unsigned i = 0; i < kSize; ++i) {
    const fi_cq_data_entry received = pair.b.next();
    EXPECT_EQ(received.op_context, &in);
    EXPECT_EQ(received.len, i + 1 == kSize ? sizeof last : length(i));
    EXPECT_EQ(received.flags, FI_MSG | FI_RECV);
    EXPECT_EQ(in.data()[i * out.size()], i + 1 == kSize ? 7 : 5);
  }
  for (unsigned i = 0; i + 1 < kSize; ++i) {
    const fi_cq_data_entry sent = pair.a.next();
    EXPECT_EQ(sent.op_context, &out);
    EXPECT_EQ(sent.len, length(i));
    EXPECT_EQ(sent.flags, FI_MSG | FI_SEND);
  }
  pair.a.look();
  EXPECT_TRUE(pair.a.kept.empty());
}

// A program may send and then wait for something else than its queue.
TEST(Message, WhatWaitsForAReceiveGoesOnThoughNobodyLooksAtAQueue) {
  Buffer in(64);
  Pair pair;
  ASSERT_EQ(fi_inject(pair.a.ep, "x", 1, 0), 0);
  ASSERT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::atomic_ref(in.data()[0]).load() == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
  }
  EXPECT_EQ(pair.b.next().len, 1u);
}

// Each end has few receives and is slow to post them; all messages come, in order.
TEST(Message, FewReceivesAndManyMessagesBothWays) {
  constexpr unsigned kDepth = 3;
  constexpr unsigned kMessages = 3000;
  Pair pair;
  Buffer in_a(kDepth * 64);
  Buffer in_b(kDepth * 64);
  struct Side {
    End& end;
    Buffer& in;
    unsigned posted = 0, got = 0, sent = 0;
  } sides[] = {{pair.a, in_a}, {pair.b, in_b}};
  unsigned idle = 0;
  while (sides[0].got < kMessages || sides[1].got < kMessages) {
    ASSERT_LT(++idle, 2000000u);
    for (Side& side : sides) {
      if (side.posted < kMessages && side.posted - side.got < kDepth) {
        void* at = side.in.data() + side.posted % kDepth * 64;
        ASSERT_EQ(fi_recv(side.end.ep, at, 64, side.in.desc(), 0, at), 0);
        ++side.posted;
      }
      if (side.sent < kMessages) {
        const ssize_t result = fi_inject(side.end.ep, &side.sent, sizeof side.sent, 0);
        if (result == 0) {
          ++side.sent;
        } else {
          ASSERT_EQ(result, -FI_EAGAIN);
        }
      }
      fi_cq_data_entry entry;
      if (fi_cq_read(side.end.queue, &entry, 1) == 1) {
        unsigned number;
        std::memcpy(&number, entry.op_context, sizeof number);
        ASSERT_EQ(number, side.got);
        ++side.got;
        idle = 0;
      }
    }
  }
}

TEST(Message, EveryLengthAlsoThoseThatNoVIAMessageHas) {
  Pair pair;
  const std::size_t most = 5'000'001;
  Buffer out(most);
  Buffer in(most);
  unsigned seed = 1;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{256},
                                  std::size_t{4096}, std::size_t{65537}, std::size_t{1048576},
                                  std::size_t{1048577}, most}) {
    out.number(++seed);
    ASSERT_EQ(fi_recv(pair.b.ep, in.data(), most, in.desc(), 0, &in), 0);
    ASSERT_EQ(
        pair.a.insist([&] { return fi_send(pair.a.ep, out.data(), bytes, out.desc(), 0, &out); }),
        0);
    const fi_cq_data_entry received = pair.b.next();
    ASSERT_EQ(received.len, bytes);
    EXPECT_TRUE(in.numbered(seed, bytes)) << bytes;
    EXPECT_EQ(pair.a.next().op_context, &out);
  }
}

TEST(Message, LongOnesAndShortOnesKeepTheirOrder) {
  Pair pair;
  const std::size_t most = 3'000'000;
  Buffer out(most);
  Buffer in(4 * most);
  out.number(9);
  const std::size_t lengths[] = {most, 10, 2'000'000, 0};
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_EQ(fi_recv(pair.b.ep, in.data() + i * most, most, in.desc(), 0, nullptr), 0);
  }
  for (const std::size_t bytes : lengths) {
    ASSERT_EQ(
        pair.a.insist([&] { return fi_send(pair.a.ep, out.data(), bytes, out.desc(), 0, nullptr); }),
        0);
  }
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_EQ(pair.b.next().len, lengths[i]);
    EXPECT_EQ(std::memcmp(in.data() + i * most, out.data(), lengths[i]), 0);
  }
}

TEST(Message, DataForTheQueueArrives) {
  Pair pair;
  Buffer out(2'000'000, 1);
  Buffer in(2'000'000);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{2'000'000}}) {
    ASSERT_EQ(fi_recv(pair.b.ep, in.data(), in.size(), in.desc(), 0, nullptr), 0);
    ASSERT_EQ(pair.a.insist([&] {
      return fi_senddata(pair.a.ep, out.data(), bytes, out.desc(), 0xfedcba98, 0, nullptr);
    }),
              0);
    const fi_cq_data_entry received = pair.b.next();
    EXPECT_EQ(received.flags, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
    EXPECT_EQ(received.data, 0xfedcba98u);
    EXPECT_EQ(received.len, bytes);
    pair.a.next();
  }
}

TEST(Message, SeveralRangesAreOneMessage) {
  Pair pair;
  Buffer out(1000);
  Buffer in(1000);
  out.number(3);
  iovec from[4] = {{out.data(), 100}, {out.data() + 100, 0}, {out.data() + 100, 400},
                   {out.data() + 500, 500}};
  iovec to[4] = {{in.data(), 1}, {in.data() + 1, 600}, {in.data() + 601, 300},
                 {in.data() + 901, 99}};
  void* from_desc[4] = {out.desc(), out.desc(), out.desc(), out.desc()};
  void* to_desc[4] = {in.desc(), in.desc(), in.desc(), in.desc()};
  ASSERT_EQ(fi_recvv(pair.b.ep, to, to_desc, 4, 0, nullptr), 0);
  ASSERT_EQ(pair.a.insist([&] { return fi_sendv(pair.a.ep, from, from_desc, 4, 0, nullptr); }), 0);
  EXPECT_EQ(pair.b.next().len, 1000u);
  EXPECT_TRUE(in.numbered(3, 1000));
}

TEST(Message, ALongOneThatDoesNotFitIsAnErrorOfThatMessageAlone) {
  Pair pair;
  Buffer out(3'000'000, 1);
  Buffer in(2'000'000);
  ASSERT_EQ(fi_recv(pair.b.ep, in.data(), in.size(), in.desc(), 0, &in), 0);
  ASSERT_EQ(pair.a.insist([&] {
    return fi_send(pair.a.ep, out.data(), out.size(), out.desc(), 0, &out);
  }),
            0);
  const fi_cq_err_entry error = pair.b.next_error();
  EXPECT_EQ(error.err, FI_ETRUNC);
  EXPECT_EQ(error.op_context, &in);
  EXPECT_EQ(error.olen, 1'000'000u);
  EXPECT_EQ(pair.a.next_error().err, FI_ETRUNC);
  ASSERT_EQ(fi_recv(pair.b.ep, in.data(), in.size(), in.desc(), 0, &in), 0);
  ASSERT_EQ(
      pair.a.insist([&] { return fi_send(pair.a.ep, out.data(), 10, out.desc(), 0, nullptr); }), 0);
  EXPECT_EQ(pair.b.next().len, 10u);
}

TEST(Message, OnlyTheCompletionsThatWereAskedForCome) {
  Pair pair(FI_SELECTIVE_COMPLETION);
  Buffer out(64, 7);
  Buffer in(64);
  const iovec range{out.data(), 64};
  void* desc = out.desc();
  const iovec in_range{in.data(), 64};
  void* in_desc = in.desc();
  for (int i = 0; i < 3; ++i) {
    fi_msg receive{&in_range, &in_desc, 1, 0, reinterpret_cast<void*>(std::uintptr_t(i + 1)), 0};
    ASSERT_EQ(fi_recvmsg(pair.b.ep, &receive, i == 2 ? FI_COMPLETION : 0), 0);
  }
  for (int i = 0; i < 3; ++i) {
    fi_msg send{&range, &desc, 1, 0, reinterpret_cast<void*>(std::uintptr_t(i + 1)), 0};
    const std::uint64_t flags = (i == 1 ? FI_COMPLETION : 0) | (i == 0 ? FI_INJECT : 0) |
                                (i == 2 ? FI_DELIVERY_COMPLETE : 0);
    ASSERT_EQ(pair.a.insist([&] { return fi_sendmsg(pair.a.ep, &send, flags); }), 0);
  }
  EXPECT_EQ(pair.b.next().op_context, reinterpret_cast<void*>(3));
  EXPECT_EQ(pair.a.next().op_context, reinterpret_cast<void*>(2));
  pair.a.look();
  EXPECT_TRUE(pair.a.kept.empty());
}

}  // namespace
