// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/trace_spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(TraceSpecTest, TakesPathAndKeysApart) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const TraceSpec spec,
      ParseTraceSpec("some dir/log.csv,days=3,block_bytes=32KiB+1MiB,x="));
  EXPECT_EQ(spec.text, "some dir/log.csv,days=3,block_bytes=32KiB+1MiB,x=");
  EXPECT_EQ(spec.path, "some dir/log.csv");
  ASSERT_EQ(spec.keys.size(), 3u);
  EXPECT_EQ(spec.keys[0].key, "days");
  EXPECT_EQ(spec.keys[0].value, "3");
  EXPECT_EQ(spec.keys[1].value, "32KiB+1MiB");
  EXPECT_EQ(spec.keys[2].value, "");
}

TEST(TraceSpecTest, RefusesWhatHasNoPath) {
  EXPECT_THAT(ParseTraceSpec(""), StatusIs(kInvalid, HasSubstr("no file")));
  EXPECT_THAT(ParseTraceSpec(",days=3"),
              StatusIs(kInvalid, HasSubstr("no file")));
}

TEST(TraceSpecTest, RefusesWhatIsNoKeyAndAKeyGivenTwice) {
  EXPECT_THAT(ParseTraceSpec("log.csv,days"),
              StatusIs(kInvalid, HasSubstr("log.csv: 'days' after a comma")));
  EXPECT_THAT(ParseTraceSpec("log.csv,=3"),
              StatusIs(kInvalid, HasSubstr("key=value")));
  EXPECT_THAT(ParseTraceSpec("log.csv,a=1,b=2,a=1"),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("twice"))));
}

}  // namespace
}  // namespace firn::bench
