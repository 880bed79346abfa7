// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/status_matchers.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointee;

absl::StatusOr<int> Seven() { return 7; }

absl::Status Refused() {
  return absl::InvalidArgumentError("capacity_bytes: 0 is too small");
}

absl::StatusOr<int> RefusedValue() { return Refused(); }

template <typename T, typename M>
std::string Explain(const T& value, const M& matcher) {
  ::testing::StringMatchResultListener listener;
  ::testing::SafeMatcherCast<const T&>(matcher).MatchAndExplain(value,
                                                                &listener);
  return listener.str();
}

template <typename T, typename M>
std::string Describe(const M& matcher) {
  return ::testing::DescribeMatcher<const T&>(matcher);
}

TEST(StatusMatchersTest, IsOkTellsSuccessFromFailure) {
  EXPECT_THAT(absl::OkStatus(), IsOk());
  EXPECT_THAT(Seven(), IsOk());
  EXPECT_THAT(Refused(), Not(IsOk()));
  EXPECT_THAT(RefusedValue(), Not(IsOk()));
}

TEST(StatusMatchersTest, IsOkExplainsAFailureWithTheWholeStatus) {
  const std::string expected =
      "which has the status INVALID_ARGUMENT: capacity_bytes: 0 is too small";
  EXPECT_EQ(Explain(Refused(), IsOk()), expected);
  EXPECT_EQ(Explain(RefusedValue(), IsOk()), expected);
}

TEST(StatusMatchersTest, StatusIsComparesTheCode) {
  EXPECT_THAT(absl::OkStatus(), StatusIs(absl::StatusCode::kOk));
  EXPECT_THAT(Refused(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(RefusedValue(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Refused(), Not(StatusIs(absl::StatusCode::kInternal)));
  EXPECT_THAT(Seven(), Not(StatusIs(absl::StatusCode::kInvalidArgument)));
}

TEST(StatusMatchersTest, StatusIsMatchesTheMessage) {
  EXPECT_THAT(Refused(), StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("capacity_bytes")));
  EXPECT_THAT(Refused(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("0"), HasSubstr("too small"))));
  EXPECT_THAT(Refused(), StatusIs(absl::StatusCode::kInvalidArgument,
                                  "capacity_bytes: 0 is too small"));
  EXPECT_THAT(Refused(), Not(StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("granule_bytes"))));
  EXPECT_THAT(Refused(), Not(StatusIs(absl::StatusCode::kInternal,
                                      HasSubstr("capacity_bytes"))));
}

TEST(StatusMatchersTest, IsOkAndHoldsMatchesTheValue) {
  EXPECT_THAT(Seven(), IsOkAndHolds(7));
  EXPECT_THAT(Seven(), IsOkAndHolds(Gt(6)));
  EXPECT_THAT(Seven(), Not(IsOkAndHolds(8)));
  EXPECT_THAT(RefusedValue(), Not(IsOkAndHolds(7)));
}

TEST(StatusMatchersTest, IsOkAndHoldsTakesValuesThatOnlyMove) {
  const absl::StatusOr<std::unique_ptr<int>> owned = std::make_unique<int>(3);
  EXPECT_THAT(owned, IsOkAndHolds(Pointee(3)));
  EXPECT_THAT(owned, Not(IsOkAndHolds(Pointee(4))));
}

TEST(StatusMatchersTest, IsOkAndHoldsExplainsValueOrStatus) {
  EXPECT_THAT(Explain(Seven(), IsOkAndHolds(8)), HasSubstr("which holds 7"));
  EXPECT_THAT(Explain(RefusedValue(), IsOkAndHolds(8)),
              HasSubstr("capacity_bytes: 0 is too small"));
}

TEST(StatusMatchersTest, MatchersDescribeThemselves) {
  EXPECT_EQ(Describe<absl::Status>(IsOk()), "is OK");
  EXPECT_EQ(Describe<absl::Status>(
                StatusIs(absl::StatusCode::kInternal, HasSubstr("map"))),
            "has a status with code INTERNAL and a message that has substring "
            "\"map\"");
  EXPECT_EQ(Describe<absl::StatusOr<int>>(IsOkAndHolds(Gt(6))),
            "is OK and holds a value that is > 6");
}

TEST(StatusMatchersTest, AssignMovesTheValueOut) {
  FIRN_ASSERT_OK_AND_ASSIGN(const int seven, Seven());
  EXPECT_EQ(seven, 7);

  absl::StatusOr<std::unique_ptr<int>> owned = std::make_unique<int>(3);
  std::unique_ptr<int> taken;
  FIRN_ASSERT_OK_AND_ASSIGN(taken, std::move(owned));
  EXPECT_THAT(taken, Pointee(3));
}

TEST(StatusMatchersTest, MacrosTakeExpressionsWithCommas) {
  using Map = std::map<int, int>;
  FIRN_EXPECT_OK(absl::StatusOr<std::map<int, int>>(Map{{1, 2}}));
  FIRN_ASSERT_OK_AND_ASSIGN(const Map map,
                            absl::StatusOr<std::map<int, int>>(Map{{1, 2}}));
  EXPECT_EQ(map.at(1), 2);
}

TEST(StatusMatchersTest, ExpectOkFailsOnAnError) {
  EXPECT_NONFATAL_FAILURE(FIRN_EXPECT_OK(Refused()), "too small");
}

TEST(StatusMatchersTest, AssertOkFailsFatallyOnAnError) {
  EXPECT_FATAL_FAILURE(FIRN_ASSERT_OK(Refused()), "too small");
}

TEST(StatusMatchersTest, AssignFailsFatallyOnAnError) {
  EXPECT_FATAL_FAILURE(
      {
        FIRN_ASSERT_OK_AND_ASSIGN(const int never, RefusedValue());
        (void)never;
      },
      "too small");
}

}  // namespace
}  // namespace firn::testing
