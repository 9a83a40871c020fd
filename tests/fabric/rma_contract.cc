// RDMA of every length, with data for the peer's queue, and its order.
#include <cstring>

#include "tests/fabric/ends.h"

namespace {

constexpr std::size_t kLengths[] = {0, 1, 255, 4096, 1048576, 1048577, 7'000'003};

TEST(Rma, WritesAndReadsOfEveryLength) {
  Pair pair;
  Buffer near(7'000'010);
  Buffer far(7'000'010);
  unsigned seed = 0;
  for (const std::size_t bytes : kLengths) {
    near.number(++seed);
    ASSERT_EQ(pair.a.insist([&] {
      return fi_write(pair.a.ep, near.data(), bytes, near.desc(), 0, far.address() + 3, far.key(),
                      &near);
    }),
              0);
    const fi_cq_data_entry written = pair.a.next();
    EXPECT_EQ(written.op_context, &near);
    EXPECT_EQ(written.flags, FI_RMA | FI_WRITE);
    ASSERT_EQ(std::memcmp(far.data() + 3, near.data(), bytes), 0) << bytes;
    std::memset(near.data(), 0, near.size());
    ASSERT_EQ(pair.a.insist([&] {
      return fi_read(pair.a.ep, near.data(), bytes, near.desc(), 0, far.address() + 3, far.key(),
                     &far);
    }),
              0);
    const fi_cq_data_entry read = pair.a.next();
    EXPECT_EQ(read.op_context, &far);
    EXPECT_EQ(read.flags, FI_RMA | FI_READ);
    ASSERT_TRUE(near.numbered(seed, bytes)) << bytes;
  }
}

TEST(Rma, DataTellsThePeerWhenTheBytesAreThere) {
  Pair pair;
  Buffer near(7'000'010);
  Buffer far(7'000'010);
  unsigned seed = 0;
  for (const std::size_t bytes : kLengths) {
    near.number(++seed);
    ASSERT_EQ(fi_recv(pair.b.ep, nullptr, 0, nullptr, 0, &seed), 0);
    ASSERT_EQ(pair.a.insist([&] {
      return fi_writedata(pair.a.ep, near.data(), bytes, near.desc(), 0xabcd0000 + seed, 0,
                          far.address(), far.key(), nullptr);
    }),
              0);
    const fi_cq_data_entry told = pair.b.next();
    EXPECT_EQ(told.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    EXPECT_EQ(told.data, 0xabcd0000 + seed);
    EXPECT_EQ(told.op_context, &seed);
    ASSERT_TRUE(far.numbered(seed, bytes)) << bytes;
    pair.a.next();
  }
}

TEST(Rma, AMessageDoesNotOvertakeAWrite) {
  Pair pair;
  Buffer near(3'000'000);
  Buffer far(3'000'000);
  Buffer in(64);
  for (unsigned seed = 1; seed < 20; ++seed) {
    near.number(seed);
    ASSERT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
    ASSERT_EQ(fi_write(pair.a.ep, near.data(), near.size(), near.desc(), 0, far.address(),
                       far.key(), nullptr),
              0);
    ASSERT_EQ(pair.a.insist([&] { return fi_inject(pair.a.ep, "done", 4, 0); }), 0);
    ASSERT_EQ(pair.b.next().len, 4u);
    ASSERT_TRUE(far.numbered(seed, far.size())) << seed;
    pair.a.next();
  }
}

TEST(Rma, SeveralRangesAtBothEnds) {
  Pair pair;
  Buffer near(9000);
  Buffer far(9000);
  near.number(4);
  iovec from[3] = {{near.data(), 1000}, {near.data() + 1000, 5000}, {near.data() + 6000, 3000}};
  void* descs[3] = {near.desc(), near.desc(), near.desc()};
  fi_rma_iov to[2] = {{far.address(), 4000, far.key()}, {far.address() + 4000, 5000, far.key()}};
  fi_msg_rma message{from, descs, 3, 0, to, 2, &near, 0};
  ASSERT_EQ(pair.a.insist([&] { return fi_writemsg(pair.a.ep, &message, FI_DELIVERY_COMPLETE); }),
            0);
  pair.a.next();
  EXPECT_TRUE(far.numbered(4, 9000));
}

TEST(Rma, ManyReadsAtOnceEachCompleteOnce) {
  Pair pair;
  constexpr unsigned kMany = 40;
  Buffer near(kMany * 600'000);
  Buffer far(kMany * 600'000);
  far.number(8);
  for (unsigned i = 0; i < kMany; ++i) {
    ASSERT_EQ(pair.a.insist([&] {
      return fi_read(pair.a.ep, near.data() + i * 600'000, 600'000, near.desc(), 0,
                     far.address() + i * 600'000, far.key(), near.data() + i);
    }),
              0);
  }
  for (unsigned i = 0; i < kMany; ++i) EXPECT_EQ(pair.a.next().op_context, near.data() + i);
  EXPECT_TRUE(near.numbered(8, near.size()));
}

TEST(Rma, WhatThePeerDoesNotAllowIsAnError) {
  Pair pair;
  Buffer near(100);
  std::vector<unsigned char> memory(100);
  fid_mr* mr;
  ASSERT_EQ(fi_mr_reg(World::get().domain, memory.data(), 100, FI_SEND | FI_RECV, 0, 0, 0, &mr,
                      nullptr),
            0);
  ASSERT_EQ(pair.a.insist([&] {
    return fi_write(pair.a.ep, near.data(), 100, near.desc(), 0,
                    reinterpret_cast<std::uintptr_t>(memory.data()), fi_mr_key(mr), &near);
  }),
            0);
  const fi_cq_err_entry error = pair.a.next_error();
  EXPECT_EQ(error.op_context, &near);
  EXPECT_EQ(error.err, FI_EACCES);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(next_event().kind, static_cast<std::uint32_t>(FI_SHUTDOWN));
  }
  fi_close(&mr->fid);
}

}  // namespace
