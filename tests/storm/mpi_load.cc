// The load of load_tool.cc between two ranks of an MPI program, for `make storm`: each sends verified messages to the
// other, for ever, until one is killed.
//
//   mpi_load LEDGER SLOT     rank N counts in slot SLOT + N
//
// A round is kWindow messages each way, every kLongEvery rounds one of kLongBytes besides, and a sum over all ranks,
// which says that both are in the same round. A changed long message is told of with its first wrong word as its number.
#define OMPI_SKIP_MPICXX 1  // C++ classes of its own, which are gone from MPI
#include <mpi.h>

#include <cstdlib>
#include <vector>

#include "tests/storm/load_message.h"

namespace {

using namespace load;

constexpr int kTag = 1, kLongTag = 2;
constexpr std::uint64_t kLongEvery = 64;
constexpr int kLongBytes = 1 << 20;  // by RDMA, where messages of kBytes may come with their envelopes

int rank;

// MPI's functions come back with an error, although errors are fatal, while a thread of Open MPI aborts the program
// because its mpirun has died: no message has arrived then.
void succeeded(int result) {
  if (result != MPI_SUCCESS) _exit(1);
}

void check(bool good, const char* what, const Head& head, std::uint64_t connection, std::uint64_t number) {
  if (good) return;
  wrong(what, head, connection, number);
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);  // MPI_Abort comes back from a second call
}

// A pattern of its own for each rank and round.
void fill_long(std::vector<std::uint64_t>& data, int from, std::uint64_t round) {
  std::uint64_t state = mix(round << 8 | static_cast<unsigned>(from));
  for (std::uint64_t& word : data) word = state = state * 6364136223846793005u + 1442695040888963407u;
}

class Messages {
 public:
  Messages(std::uint64_t own, std::uint64_t others) : own_(own), others_(others) {}

  void exchange() {
    MPI_Request requests[2 * kWindow];
    for (unsigned i = 0; i < kWindow; ++i) {
      MPI_Irecv(in_[i], kBytes, MPI_BYTE, 1 - rank, kTag, MPI_COMM_WORLD, &requests[i]);
    }
    for (unsigned i = 0; i < kWindow; ++i) {
      const std::uint32_t length = fill(out_[i], own_, next_ + i);
      MPI_Isend(out_[i], static_cast<int>(length), MPI_BYTE, 1 - rank, kTag, MPI_COMM_WORLD, &requests[kWindow + i]);
      ++ledger->sent;
      ledger->sent_bytes += length;
    }
    MPI_Status statuses[2 * kWindow];
    succeeded(MPI_Waitall(2 * kWindow, requests, statuses));
    for (unsigned i = 0; i < kWindow; ++i) judge(in_[i], statuses[i], next_ + i);
    next_ += kWindow;
  }

 private:
  void judge(const unsigned char* data, const MPI_Status& status, std::uint64_t number) const {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    Head head{};
    std::memcpy(&head, data, std::min<std::size_t>(static_cast<std::size_t>(bytes), sizeof head));
    check(head.connection == others_ && head.number == number, "not the next message", head, others_, number);
    check(verify(data, static_cast<std::uint32_t>(bytes), head), "changed message", head, others_, number);
    ++ledger->verified;
    ledger->verified_bytes += static_cast<std::uint64_t>(bytes);
  }

  const std::uint64_t own_, others_;
  std::uint64_t next_ = 0;
  unsigned char in_[kWindow][kBytes] = {}, out_[kWindow][kBytes] = {};
};

void exchange_long(std::uint64_t round) {
  std::vector<std::uint64_t> out(kLongBytes / 8), in(kLongBytes / 8), expected(kLongBytes / 8);
  fill_long(out, rank, round);
  fill_long(expected, 1 - rank, round);
  succeeded(MPI_Sendrecv(out.data(), kLongBytes, MPI_BYTE, 1 - rank, kLongTag, in.data(), kLongBytes, MPI_BYTE,
                         1 - rank, kLongTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  const auto differs = std::mismatch(in.begin(), in.end(), expected.begin()).first - in.begin();
  check(in == expected, "changed long message", Head{0, static_cast<std::uint64_t>(differs), kLongBytes / 8}, 0, round);
  ++ledger->verified;
  ledger->verified_bytes += kLongBytes;
}

void agree_on(std::uint64_t round) {
  std::uint64_t sum = 0;
  succeeded(MPI_Allreduce(&round, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  check(sum == 2 * round, "sum of another round", Head{}, 0, round);
  ++ledger->answered;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3 || ranks != 2 || !open_ledger(argv[1], std::atoi(argv[2]) + rank)) MPI_Abort(MPI_COMM_WORLD, 2);
  std::uint64_t own = draw() | 1, others = 0;
  succeeded(MPI_Sendrecv(&own, 1, MPI_UINT64_T, 1 - rank, kTag, &others, 1, MPI_UINT64_T, 1 - rank, kTag, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  ++ledger->connections;
  static Messages messages(own, others);
  for (std::uint64_t round = 0;; ++round) {
    ++ledger->beats;
    messages.exchange();
    if (round % kLongEvery == 0) exchange_long(round);
    agree_on(round);
  }
}
