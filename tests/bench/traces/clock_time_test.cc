// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/clock_time.h"

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ClockTimeTest, ReadsHoursMinutesSecondsAndFractions) {
  EXPECT_THAT(ParseClockTime("00:00:00"), IsOkAndHolds(0));
  EXPECT_THAT(ParseClockTime("13:01:02.123456"), IsOkAndHolds(46862123456));
  EXPECT_THAT(ParseClockTime("0:0:1.5"), IsOkAndHolds(1500000));
  EXPECT_THAT(ParseClockTime("0:0:1.1234567891"), IsOkAndHolds(1123456));
}

TEST(ClockTimeTest, ReadsMicrosecondsAfterAColonAsOlderLogsHaveThem) {
  EXPECT_THAT(ParseClockTime("13:01:02:123456"), IsOkAndHolds(46862123456));
  EXPECT_THAT(ParseClockTime("0:0:1:5"), IsOkAndHolds(1000005));
}

TEST(ClockTimeTest, HoursMayExceedADay) {
  EXPECT_THAT(ParseClockTime("340:00:00.000001"),
              IsOkAndHolds(340 * kUsPerHour + 1));
  EXPECT_THAT(ParseClockTime("2777777:46:40"),
              IsOkAndHolds(10'000'000'000'000'000));
}

TEST(ClockTimeTest, HoursReachAsFarAsMicrosecondsFit64Bits) {
  // 2^63 - 1 us.
  EXPECT_THAT(ParseClockTime("2562047788:00:54.775807"),
              IsOkAndHolds(std::numeric_limits<int64_t>::max()));
  for (const char* text :
       {"2562047788:00:54.775808", "2562047789:00:00",
        "18446744073709551617:0:0", "999999999999999999:59:59"}) {
    EXPECT_THAT(ParseClockTime(text),
                StatusIs(kInvalid, HasSubstr("is not a time of day")))
        << text;
  }
}

TEST(ClockTimeTest, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "12", "12:00", "12:60:00", "12:00:61", "a:b:c", "12:00:00.",
        "12:00:00:", "12:00:00.5x", "-1:00:00", "12:00:00:1234567"}) {
    EXPECT_THAT(ParseClockTime(text),
                StatusIs(kInvalid, HasSubstr("is not a time of day")))
        << text;
  }
}

TEST(DateTimeTest, CountsFromTheEpochThroughLeapYears) {
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:00"), IsOkAndHolds(0));
  EXPECT_THAT(ParseDateTime("1970-01-02 00:00:00.000001"),
              IsOkAndHolds(kUsPerDay + 1));
  EXPECT_THAT(ParseDateTime("2000-02-29 00:00:00"),
              IsOkAndHolds(11016 * kUsPerDay));
  EXPECT_THAT(ParseDateTime("2000-03-01 00:00:00"),
              IsOkAndHolds(11017 * kUsPerDay));
  EXPECT_THAT(ParseDateTime("2023-11-16 18:15:46.6805900"),
              IsOkAndHolds(1700158546680590));
}

TEST(DateTimeTest, TakesZonesIntoAccount) {
  for (const char* text :
       {"2024-05-10T02:30:00.25Z", "2024-05-10 02:30:00.25+00:00",
        "2024-05-10 04:30:00.25+02:00", "2024-05-09 23:00:00.25-03:30"}) {
    EXPECT_THAT(ParseDateTime(text), IsOkAndHolds(1715308200250000)) << text;
  }
}

TEST(DateTimeTest, RefusesDaysAndHoursThatDoNotExist) {
  for (const char* text :
       {"2023-02-31 00:00:00", "2023-02-29 00:00:00", "1900-02-29 00:00:00",
        "2024-02-30 00:00:00", "2023-04-31 00:00:00", "2023-06-31 00:00:00",
        "2023-09-31 00:00:00", "2023-11-31 00:00:00", "2023-01-32 00:00:00",
        "2023-11-16 25:00:00", "9999-12-31 2562047788:00:00"}) {
    EXPECT_THAT(ParseDateTime(text),
                StatusIs(kInvalid, HasSubstr("is not a time")))
        << text;
  }
  for (const char* text :
       {"2024-02-29 00:00:00", "2000-02-29 00:00:00", "2023-01-31 00:00:00",
        "2023-04-30 23:59:60.5", "2023-12-31 00:00:00"}) {
    FIRN_EXPECT_OK(ParseDateTime(text).status());
  }
}

TEST(DateTimeTest, RefusesWhatIsNoDateAndTime) {
  for (const char* text : {"", "2023-11-16", "18:15:46", "2023-13-16 00:00:00",
                           "2023-11-32 00:00:00", "2023-11-16 00:00:00 UTC",
                           "2023/11/16 00:00:00", "2023-11-16 00:00:00+02"}) {
    EXPECT_THAT(ParseDateTime(text),
                StatusIs(kInvalid, HasSubstr("is not a time")))
        << text;
  }
}

}  // namespace
}  // namespace firn::bench
