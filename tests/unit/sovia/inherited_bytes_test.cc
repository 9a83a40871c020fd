#include "sovia/socket/inherited_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia {
namespace {

InheritedBytes* filled(const std::string& text) {
  libc::prepare();
  InheritedBytes* const inherited_bytes = make_inherited_bytes(text.size());
  if (inherited_bytes != nullptr) std::memcpy(inherited_bytes->data(), text.data(), text.size());
  return inherited_bytes;
}

std::string read(InheritedBytes& inherited_bytes, std::size_t bytes, bool peek = false) {
  std::string text(bytes, '\0');
  const iovec piece{text.data(), bytes};
  text.resize(read_inherited_bytes(inherited_bytes, &piece, 1, 0, peek));
  return text;
}

TEST(InheritedBytes, GivesEachByteOnce) {
  InheritedBytes* const inherited_bytes = filled("abcdefgh");
  ASSERT_NE(inherited_bytes, nullptr);
  EXPECT_EQ(read(*inherited_bytes, 3, true), "abc");
  EXPECT_EQ(read(*inherited_bytes, 3), "abc");
  EXPECT_EQ(inherited_bytes->left(), 5u);
  char one[2], two[2];
  const iovec pieces[] = {{one, 2}, {two, 2}};
  EXPECT_EQ(read_inherited_bytes(*inherited_bytes, pieces, 2, 1, false), 3u);
  EXPECT_EQ(one[1], 'd');
  EXPECT_EQ(std::string(two, 2), "ef");
  EXPECT_EQ(read(*inherited_bytes, 9), "gh");
  EXPECT_EQ(read(*inherited_bytes, 9), "");
  free_inherited_bytes(inherited_bytes);
}

TEST(InheritedBytes, IsSharedWithAChild) {
  InheritedBytes* const inherited_bytes = filled("childparent");
  ASSERT_NE(inherited_bytes, nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(read(*inherited_bytes, 5) == "child" ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(*inherited_bytes, 20), "parent");
  free_inherited_bytes(inherited_bytes);
}

TEST(InheritedBytes, IsFoundByItsFile) {
  InheritedBytes* inherited_bytes = filled("to another program");
  ASSERT_NE(inherited_bytes, nullptr);
  const int file = file_of(inherited_bytes);
  ASSERT_GE(file, 0);
  EXPECT_TRUE(own_descriptors::has(file));
  inherited_bytes->set_socket(77);
  EXPECT_EQ(inherited_bytes_of(file, 78), nullptr);
  InheritedBytes* const found = inherited_bytes_of(file, 77);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(read(*found, 3), "to ");
  EXPECT_EQ(read(*inherited_bytes, 8), "another ");
  EXPECT_EQ(found->left(), 7u);
  own_descriptors::release(file);  // here both are one process
  free_inherited_bytes(inherited_bytes);
  EXPECT_FALSE(own_descriptors::has(file));
  EXPECT_LT(fcntl(file, F_GETFD), 0);
  free_inherited_bytes(found);
}

TEST(InheritedBytes, IsThatOfBothWhoHaveTheSocket) {
  InheritedBytes* inherited_bytes = filled("in a message");
  ASSERT_NE(inherited_bytes, nullptr);
  EXPECT_EQ(read(*inherited_bytes, 3), "in ");
  inherited_bytes->set_socket(77);
  const int received = dup(file_of(inherited_bytes));
  EXPECT_TRUE(is_inherited_bytes(received));
  std::uint64_t socket = 0;
  InheritedBytes* const passed = passed_inherited_bytes(received, socket);
  ASSERT_NE(passed, nullptr);
  EXPECT_EQ(socket, 77u);
  EXPECT_EQ(read(*passed, 2), "a ");
  EXPECT_EQ(read(*inherited_bytes, 20), "message");
  EXPECT_EQ(passed->left(), 0u);
  close(received);
  free_inherited_bytes(passed);
  free_inherited_bytes(inherited_bytes);
}

// So a process that was passed the socket can fork, or pass it on, and the others lose nothing.
TEST(InheritedBytes, IsPassedOnByOneWhoHasGotIt) {
  InheritedBytes* inherited_bytes = filled("for all of them");
  ASSERT_NE(inherited_bytes, nullptr);
  const int received = dup(file_of(inherited_bytes));
  std::uint64_t socket;
  InheritedBytes* passed = passed_inherited_bytes(received, socket);
  ASSERT_NE(passed, nullptr);
  close(received);
  const int again = dup(file_of(passed));
  InheritedBytes* const third = passed_inherited_bytes(again, socket);
  ASSERT_NE(third, nullptr);
  close(again);
  EXPECT_EQ(read(*inherited_bytes, 4), "for ");
  EXPECT_EQ(read(*third, 4), "all ");
  EXPECT_EQ(read(*passed, 20), "of them");
  for (InheritedBytes* const each : {third, passed, inherited_bytes}) free_inherited_bytes(each);
}

TEST(InheritedBytes, IsNoOtherFile) {
  libc::prepare();
  const int file = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 8192), 0);
  EXPECT_FALSE(is_inherited_bytes(file));
  EXPECT_EQ(inherited_bytes_of(file, 0), nullptr);
  EXPECT_FALSE(is_inherited_bytes(STDIN_FILENO));
  EXPECT_FALSE(is_inherited_bytes(-1));
  close(file);
}

// The file's sender and its receiver still have it mapped.
TEST(InheritedBytes, AnotherProcessMayScribbleInIt) {
  constexpr std::size_t kHeader = 32 + sizeof(ResumeRecord), kRoom = 100;
  InheritedBytes* inherited_bytes = filled(std::string(kRoom, 'x'));
  const int file = file_of(inherited_bytes);
  ASSERT_GE(file, 0);
  auto* const words = static_cast<std::uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(words, MAP_FAILED);
  std::mt19937_64 random(1);
  for (int round = 0; round < 10000; ++round) {
    const std::uint64_t value = random() >> random() % 64;
    words[random() % (kHeader / sizeof words[0])] = value;
    EXPECT_LE(inherited_bytes->left(), kRoom);
    EXPECT_LE(read(*inherited_bytes, 2 * kRoom, round % 2 == 0).size(), kRoom);
    if (round % 16 != 0) continue;
    words[0] = 0x3575646973657253;  // or it would not be taken for one
    std::uint64_t socket;
    InheritedBytes* const passed = passed_inherited_bytes(file, socket);
    ASSERT_NE(passed, nullptr);
    EXPECT_LE(passed->left(), kRoom);
    free_inherited_bytes(passed);
  }
  munmap(words, 4096);
  free_inherited_bytes(inherited_bytes);
}

// As many unread connections as a server may have.
TEST(InheritedBytes, ManyDoWithoutFiles) {
  const auto files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  InheritedBytes* all[200];
  const auto before = files();
  for (InheritedBytes*& each : all) ASSERT_NE(each = filled("x"), nullptr);
  EXPECT_LT(files(), before + 200);
  const auto most = files();
  EXPECT_GE(file_of(all[199]), 0);
  EXPECT_EQ(files(), most + 1) << "the last had none";
  EXPECT_EQ(read(*all[199], 5), "x");
  for (InheritedBytes* const each : all) free_inherited_bytes(each);
}

}  // namespace
}  // namespace viaduct::sovia
