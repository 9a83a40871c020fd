#include "sovia/socket/inherited_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia {
namespace {

Residue* filled(const std::string& text) {
  kernel::prepare();
  Residue* const residue = make_residue(text.size());
  if (residue != nullptr) std::memcpy(residue->data(), text.data(), text.size());
  return residue;
}

std::string read(Residue& residue, std::size_t bytes, bool peek = false) {
  std::string text(bytes, '\0');
  const iovec piece{text.data(), bytes};
  text.resize(read_residue(residue, &piece, 1, 0, peek));
  return text;
}

TEST(Residue, GivesEachByteOnce) {
  Residue* const residue = filled("abcdefgh");
  ASSERT_NE(residue, nullptr);
  EXPECT_EQ(read(*residue, 3, true), "abc");
  EXPECT_EQ(read(*residue, 3), "abc");
  EXPECT_EQ(residue->left(), 5u);
  char one[2], two[2];
  const iovec pieces[] = {{one, 2}, {two, 2}};
  EXPECT_EQ(read_residue(*residue, pieces, 2, 1, false), 3u);
  EXPECT_EQ(one[1], 'd');
  EXPECT_EQ(std::string(two, 2), "ef");
  EXPECT_EQ(read(*residue, 9), "gh");
  EXPECT_EQ(read(*residue, 9), "");
  free_residue(residue);
}

TEST(Residue, IsSharedWithAChild) {
  Residue* const residue = filled("childparent");
  ASSERT_NE(residue, nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(read(*residue, 5) == "child" ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(*residue, 20), "parent");
  free_residue(residue);
}

TEST(Residue, IsFoundByItsFile) {
  Residue* residue = filled("to another program");
  ASSERT_NE(residue, nullptr);
  const int file = file_of(residue);
  ASSERT_GE(file, 0);
  EXPECT_TRUE(own_descriptors::has(file));
  Residue* const found = residue_of(file);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(read(*found, 3), "to ");
  EXPECT_EQ(read(*residue, 8), "another ");
  EXPECT_EQ(found->left(), 7u);
  own_descriptors::release(file);  // here both are one process
  free_residue(residue);
  EXPECT_FALSE(own_descriptors::has(file));
  EXPECT_LT(fcntl(file, F_GETFD), 0);
  free_residue(found);
}

TEST(Residue, MovesToACopy) {
  Residue* residue = filled("in a message");
  ASSERT_NE(residue, nullptr);
  EXPECT_EQ(read(*residue, 3), "in ");
  residue->set_socket(77);
  const int received = dup(file_of(residue));
  EXPECT_EQ(residue_of(received), nullptr);
  EXPECT_TRUE(is_residue(received));
  std::uint64_t socket = 0;
  Residue* const copy = copy_of_residue(received, socket);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(socket, 77u);
  EXPECT_EQ(residue->left(), 0u);
  EXPECT_EQ(read(*copy, 20), "a message");
  close(received);
  free_residue(copy);
  free_residue(residue);
}

TEST(Residue, IsNoOtherFile) {
  kernel::prepare();
  const int file = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 8192), 0);
  EXPECT_FALSE(is_residue(file));
  EXPECT_EQ(residue_of(file), nullptr);
  EXPECT_FALSE(is_residue(STDIN_FILENO));
  EXPECT_FALSE(is_residue(-1));
  close(file);
}

// Whoever was sent the file, or has sent it, still has it mapped.
TEST(Residue, AnotherProcessMayScribbleInIt) {
  constexpr std::size_t kHeader = 88, kRoom = 100;
  Residue* residue = filled(std::string(kRoom, 'x'));
  const int file = file_of(residue);
  ASSERT_GE(file, 0);
  auto* const words = static_cast<std::uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(words, MAP_FAILED);
  std::mt19937_64 random(1);
  for (int round = 0; round < 10000; ++round) {
    const std::uint64_t value = random() >> random() % 64;
    words[random() % (kHeader / sizeof words[0])] = value;
    EXPECT_LE(residue->left(), kRoom);
    EXPECT_LE(read(*residue, 2 * kRoom, round % 2 == 0).size(), kRoom);
    if (round % 16 != 0) continue;
    words[0] = 0x3275646973657253;  // or it would not be taken for one
    std::uint64_t socket;
    Residue* const copy = copy_of_residue(file, socket);
    ASSERT_NE(copy, nullptr);
    EXPECT_LE(copy->left(), kRoom);
    free_residue(copy);
  }
  munmap(words, 4096);
  free_residue(residue);
}

// As many unread connections as a server may have.
TEST(Residue, ManyDoWithoutFiles) {
  Residue* all[200];
  for (Residue*& each : all) ASSERT_NE(each = filled("x"), nullptr);
  EXPECT_FALSE(all[199]->has_file());
  EXPECT_GE(file_of(all[199]), 0);
  EXPECT_EQ(read(*all[199], 5), "x");
  for (Residue* const each : all) free_residue(each);
}

}  // namespace
}  // namespace viaduct::sovia
