// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/byte_source.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/packed_file.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr uint64_t kNoLimit = ~uint64_t{0};

// Compresses badly, so that the packed file is read in several parts.
std::string LongText() {
  std::string text;
  uint64_t state = 1;
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text.push_back(static_cast<char>(state >> 56));
  }
  return text;
}

TEST(ByteSourceTest, ReadsPlainGzipAndZstandardFilesAlike) {
  const std::string text = LongText();
  EXPECT_THAT(ReadAllBytes(WriteFile("a", text), kNoLimit),
              IsOkAndHolds(Eq(text)));
  EXPECT_THAT(ReadAllBytes(WriteFile("b", Gzip(text)), kNoLimit),
              IsOkAndHolds(Eq(text)));
  EXPECT_THAT(ReadAllBytes(WriteFile("c", Zstd(text)), kNoLimit),
              IsOkAndHolds(Eq(text)));
}

TEST(ByteSourceTest, ReadsFilesPackedInSeveralMembers) {
  EXPECT_THAT(
      ReadAllBytes(WriteFile("a", Gzip("one,") + Gzip("two")), kNoLimit),
      IsOkAndHolds(Eq("one,two")));
  EXPECT_THAT(
      ReadAllBytes(WriteFile("b", Zstd("one,") + Zstd("two")), kNoLimit),
      IsOkAndHolds(Eq("one,two")));
}

TEST(ByteSourceTest, RewindsInTheMiddle) {
  const std::string text = LongText();
  for (const std::string& contents : {text, Gzip(text), Zstd(text)}) {
    FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ByteSource> source,
                              OpenByteSource(WriteFile("f", contents)));
    char first[100];
    FIRN_ASSERT_OK_AND_ASSIGN(const size_t count,
                              source->Read(first, sizeof(first)));
    ASSERT_GT(count, 0u);
    FIRN_ASSERT_OK(source->Rewind());
    char again[100];
    EXPECT_THAT(source->Read(again, sizeof(again)), IsOkAndHolds(count));
    EXPECT_EQ(std::string(first, count), std::string(again, count));
    EXPECT_EQ(std::string(first, count), text.substr(0, count));
  }
}

TEST(ByteSourceTest, NamesAFileThatIsCutOffOrDamaged) {
  for (std::string packed : {Gzip(LongText()), Zstd(LongText())}) {
    const std::string cut =
        WriteFile("cut", packed.substr(0, packed.size() / 2));
    EXPECT_THAT(
        ReadAllBytes(cut, kNoLimit),
        StatusIs(kInvalid, AllOf(HasSubstr(cut), HasSubstr("cut off"))));
    for (size_t i = 4; i < 40; ++i) packed[i] = '\xff';
    const std::string damaged = WriteFile("damaged", packed);
    EXPECT_THAT(
        ReadAllBytes(damaged, kNoLimit),
        StatusIs(kInvalid, AllOf(HasSubstr(damaged), HasSubstr("damaged"))));
  }
}

TEST(ByteSourceTest, NamesAMissingFileAndWhatIsNoFile) {
  EXPECT_THAT(OpenByteSource("/nowhere/x.csv"),
              StatusIs(absl::StatusCode::kNotFound,
                       Eq("/nowhere/x.csv: no such file")));
  EXPECT_THAT(OpenByteSource("/dev/zero"),
              StatusIs(kInvalid, HasSubstr("not a regular file")));
  EXPECT_THAT(OpenByteSource("/"),
              StatusIs(kInvalid, HasSubstr("not a regular file")));
}

TEST(ByteSourceTest, StopsAtTheLimitOfBytesHoweverSmallTheFileIs) {
  const std::string bomb = WriteFile("bomb", Gzip(std::string(8 << 20, '0')));
  EXPECT_THAT(ReadAllBytes(bomb, 4 << 20),
              StatusIs(kInvalid, HasSubstr("holds more than 4MiB")));
  EXPECT_THAT(ReadAllBytes(WriteFile("empty", ""), 0), IsOkAndHolds(Eq("")));
}

TEST(ByteSourceTest, ALittleFileMayNotFillTheMemory) {
  const std::string zeros(size_t{70} << 20, '\0');
  for (const std::string& packed : {Gzip(zeros), Zstd(zeros)}) {
    EXPECT_THAT(ReadAllBytes(WriteFile("f", packed), kNoLimit),
                StatusIs(kInvalid, HasSubstr(": unpacks to more than 200 times "
                                             "its size")));
  }
  EXPECT_THAT(
      ReadAllBytes(WriteFile("f", Gzip(zeros.substr(0, 1 << 20))), kNoLimit),
      IsOkAndHolds(Eq(zeros.substr(0, 1 << 20))));
}

}  // namespace
}  // namespace firn::bench
