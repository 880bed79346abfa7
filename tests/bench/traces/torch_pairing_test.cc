// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_pairing.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Form = TorchSizeLaw::Form;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr TorchLengths kLengths = {1024, 512};
constexpr size_t kNone = kNoCounterpart;

absl::StatusOr<std::vector<size_t>> Align(const std::vector<uint64_t>& own,
                                          const std::vector<uint64_t>& pair,
                                          size_t most_differences = 100) {
  return AlignAllocations(kLengths, own, pair, most_differences);
}

TorchProgram ProgramOf(const std::vector<uint64_t>& sizes) {
  TorchProgram program;
  for (const uint64_t bytes : sizes) program.blocks.push_back({bytes, 0, 0, 0});
  return program;
}

TEST(AlignAllocationsTest, PairsOneByOneWhereNothingDiffers) {
  EXPECT_THAT(Align({100, 200, 400, 100}, {100, 100, 100, 50}, 0),
              IsOkAndHolds(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(Align({}, {}, 0), IsOkAndHolds(ElementsAre()));
}

TEST(AlignAllocationsTest, SkipsWhatOnlyOneOfThemAllocates) {
  EXPECT_THAT(Align({100, 7, 300, 500}, {100, 300, 500}),
              IsOkAndHolds(ElementsAre(0, kNone, 1, 2)));
  EXPECT_THAT(Align({100, 300, 500}, {100, 7, 300, 500, 11}),
              IsOkAndHolds(ElementsAre(0, 2, 3)));
  EXPECT_THAT(Align({7, 100, 300}, {11, 11, 100, 300}),
              IsOkAndHolds(ElementsAre(kNone, 2, 3)));
}

TEST(AlignAllocationsTest, PairsUpGapsThatAreAsLongOnBothSides) {
  EXPECT_THAT(Align({100, 72191, 300}, {100, 1, 300}),
              IsOkAndHolds(ElementsAre(0, 1, 2)));
  EXPECT_THAT(Align({72191, 5}, {1, 99}), IsOkAndHolds(ElementsAre(0, 1)));
}

TEST(AlignAllocationsTest, GivesUpBeyondTheDifferencesAllowed) {
  EXPECT_THAT(Align({100, 7, 300}, {100, 300}, 1),
              IsOkAndHolds(ElementsAre(0, kNone, 1)));
  EXPECT_THAT(Align({100, 7, 300}, {100, 300}, 0),
              StatusIs(kInvalid, HasSubstr("differ in more than 0 places")));
  EXPECT_THAT(Align({100, 7, 300}, {100, 11, 300}, 1),
              StatusIs(kInvalid, HasSubstr("their 3 and 3 allocations")));
}

TEST(PairProgramsTest, FindsTheFormOfEachBlock) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<TorchSizeLaw> laws,
      PairPrograms(kLengths, ProgramOf({100, 200, 400, 72191, 100}),
                   ProgramOf({100, 100, 100, 1, 100})));
  EXPECT_EQ(laws[0].form(), Form::kState);
  EXPECT_EQ(laws[1].form(), Form::kLinear);
  EXPECT_EQ(laws[2].form(), Form::kQuadratic);
  EXPECT_EQ(laws[3].form(), Form::kUnexplained);
  EXPECT_EQ(laws[4].form(), Form::kState);
}

TEST(PairProgramsTest, RefusesProgramsWithTooManyUnexplainedBlocks) {
  const std::vector<uint64_t> own(40, 100);
  std::vector<uint64_t> pair = own;
  pair[7] = 900;
  pair[20] = 900;
  EXPECT_TRUE(PairPrograms(kLengths, ProgramOf(own), ProgramOf(pair)).ok());
  pair[30] = 900;
  EXPECT_THAT(PairPrograms(kLengths, ProgramOf(own), ProgramOf(pair)),
              StatusIs(kInvalid, HasSubstr("of 40 allocations, 3 have no "
                                           "counterpart")));
  EXPECT_THAT(PairPrograms(kLengths, ProgramOf(own),
                           ProgramOf(std::vector<uint64_t>(80, 100))),
              StatusIs(kInvalid, HasSubstr("their 40 and 80 allocations")));
}

}  // namespace
}  // namespace firn::bench
