// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/clock_time.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

// Takes 1 to `most_digits` digits (at most 18) off the front of `text`.
bool TakeDigits(absl::string_view* text, size_t most_digits, int64_t* value) {
  size_t count = 0;
  *value = 0;
  while (count < text->size() && count < most_digits && (*text)[count] >= '0' &&
         (*text)[count] <= '9') {
    *value = *value * 10 + ((*text)[count] - '0');
    ++count;
  }
  text->remove_prefix(count);
  return count > 0;
}

bool TakeChar(absl::string_view* text, char wanted) {
  if (text->empty() || text->front() != wanted) return false;
  text->remove_prefix(1);
  return true;
}

// Digits after a point, cut to microseconds.
bool TakeFraction(absl::string_view* text, int64_t* us) {
  int64_t unit = kUsPerSecond / 10;
  size_t count = 0;
  *us = 0;
  while (count < text->size() && (*text)[count] >= '0' &&
         (*text)[count] <= '9') {
    *us += ((*text)[count] - '0') * unit;
    unit /= 10;
    ++count;
  }
  text->remove_prefix(count);
  return count > 0;
}

// False also where the time is beyond 64 bits.
bool TakeClock(absl::string_view* text, int64_t* us) {
  int64_t hours = 0;
  int64_t minutes = 0;
  int64_t seconds = 0;
  if (!TakeDigits(text, 18, &hours) || !TakeChar(text, ':') ||
      !TakeDigits(text, 2, &minutes) || minutes > 59 || !TakeChar(text, ':') ||
      !TakeDigits(text, 2, &seconds) || seconds > 60) {
    return false;
  }
  int64_t fraction_us = 0;
  if (TakeChar(text, '.')) {
    if (!TakeFraction(text, &fraction_us)) return false;
  } else if (TakeChar(text, ':')) {
    if (!TakeDigits(text, 6, &fraction_us)) return false;
  }
  const int64_t in_hour_us =
      (minutes * 60 + seconds) * kUsPerSecond + fraction_us;
  constexpr int64_t kMaxUs = std::numeric_limits<int64_t>::max();
  if (hours > (kMaxUs - in_hour_us) / kUsPerHour) return false;
  *us = hours * kUsPerHour + in_hour_us;
  return true;
}

int64_t DaysInMonth(int64_t year, int64_t month) {
  if (month == 2) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28;
  }
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// Days of the Gregorian calendar since 1970-01-01. Years begin in March here,
// so that the leap day is the last of its year.
int64_t DaysSinceEpoch(int64_t year, int64_t month, int64_t day) {
  if (month <= 2) --year;
  const int64_t month_from_march = (month + 9) % 12;
  const int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
  return year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719468;
}

bool TakeDateTime(absl::string_view* text, int64_t* us) {
  int64_t year = 0;
  int64_t month = 0;
  int64_t day = 0;
  if (!TakeDigits(text, 4, &year) || year < 1 || !TakeChar(text, '-') ||
      !TakeDigits(text, 2, &month) || month < 1 || month > 12 ||
      !TakeChar(text, '-') || !TakeDigits(text, 2, &day) || day < 1 ||
      day > DaysInMonth(year, month) ||
      !(TakeChar(text, ' ') || TakeChar(text, 'T')) || !TakeClock(text, us) ||
      *us >= kUsPerDay + kUsPerSecond) {
    return false;
  }
  *us += DaysSinceEpoch(year, month, day) * kUsPerDay;
  if (TakeChar(text, 'Z') || text->empty()) return true;
  const int64_t sign = text->front() == '-' ? 1 : -1;
  int64_t hours = 0;
  int64_t minutes = 0;
  if (!(TakeChar(text, '+') || TakeChar(text, '-')) ||
      !TakeDigits(text, 2, &hours) || !TakeChar(text, ':') ||
      !TakeDigits(text, 2, &minutes)) {
    return false;
  }
  *us += sign * (hours * 60 + minutes) * 60 * kUsPerSecond;
  return true;
}

}  // namespace

absl::StatusOr<int64_t> ParseClockTime(absl::string_view text) {
  absl::string_view rest = text;
  int64_t us = 0;
  if (TakeClock(&rest, &us) && rest.empty()) return us;
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is not a time of day such as 13:01:02.123456"));
}

absl::StatusOr<int64_t> ParseDateTime(absl::string_view text) {
  absl::string_view rest = text;
  int64_t us = 0;
  if (TakeDateTime(&rest, &us) && rest.empty()) return us;
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is not a time such as 2023-11-16 18:15:46.680590"));
}

}  // namespace firn::bench
