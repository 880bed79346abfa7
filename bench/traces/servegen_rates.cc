// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_rates.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/decimal_number.h"
#include "bench/traces/line_reader.h"

namespace firn::bench {
namespace {

// The largest of the published rates is some 250 requests a second.
constexpr double kMaxRequestsPerSecond = 1e6;
constexpr double kMaxWindowRequests = 1e7;
constexpr double kMaxStartSeconds = 1e12;
constexpr double kMinWindowSeconds = 1;
constexpr double kMaxWindowSeconds = 86'400;
constexpr double kOnlyWindowSeconds = 600;
constexpr double kMaxArgument = 1e300;

enum Field : size_t {
  kStart,
  kRate,
  kCv,
  kDistribution,
  kArgument1,
  kArgument2,
  kFields
};
constexpr absl::string_view kFieldNames[kFields] = {
    "start", "rate", "CV", "distribution", "argument 1", "argument 2"};
constexpr double kMost[kFields] = {kMaxStartSeconds,    kMaxRequestsPerSecond,
                                   ArrivalGaps::kMaxCv, 0,
                                   kMaxArgument,        kMaxArgument};

struct Row {
  double numbers[kFields] = {};
  absl::string_view distribution;
};

absl::StatusOr<Row> ParseRow(const LineReader& lines, absl::string_view line) {
  const std::vector<absl::string_view> fields = SplitCsv(line);
  if (fields.size() != kFields) {
    return lines.Error(
        absl::StrCat(fields.size(),
                     " fields; 6 are expected: the window's start, rate, CV, "
                     "distribution and its two arguments"));
  }
  Row row;
  row.distribution = fields[kDistribution];
  for (size_t i = 0; i < kFields; ++i) {
    if (i == kDistribution) continue;
    absl::StatusOr<double> number = ParseDecimal(fields[i], kMost[i]);
    if (!number.ok()) {
      return lines.Error(
          absl::StrCat(kFieldNames[i], ": ", number.status().message()));
    }
    row.numbers[i] = *number;
  }
  return row;
}

// Sets the end of the window of line `line_number` and, from the rate that
// stands there, the requests.
absl::Status CloseWindow(const LineReader& lines, uint64_t line_number,
                         double end_s, RateWindow* window) {
  window->end_s = end_s;
  window->requests *= end_s - window->start_s;
  if (window->requests > kMaxWindowRequests) {
    return lines.ErrorAt(
        line_number, absl::StrCat("the window from ", window->start_s,
                                  " s has ", window->requests,
                                  " requests; at most ", kMaxWindowRequests));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RateWindow>> ReadServeGenRates(
    absl::string_view path, size_t most_windows) {
  absl::StatusOr<LineReader> lines = LineReader::Open(path);
  if (!lines.ok()) return lines.status();
  std::vector<RateWindow> windows;
  uint64_t last_line_number = 0;  // of the last of them
  absl::string_view line;
  while (true) {
    absl::StatusOr<bool> found = lines->NextNotBlank(&line);
    if (!found.ok()) return found.status();
    if (!*found) break;
    if (windows.size() == most_windows) {
      return lines->Error("too many windows in all");
    }
    absl::StatusOr<Row> row = ParseRow(*lines, line);
    if (!row.ok()) return row.status();
    const double rate = row->numbers[kRate];
    // Without requests, what their gaps would be does not matter.
    const bool any_gaps = row->distribution.empty() && rate == 0;
    absl::StatusOr<ArrivalGaps> gaps = ArrivalGaps::Create(
        any_gaps ? "Exponential" : row->distribution, row->numbers[kCv]);
    if (!gaps.ok()) {
      return lines->Error(absl::StrCat(kFieldNames[kDistribution], ": ",
                                       gaps.status().message()));
    }
    const double start_s = row->numbers[kStart];
    if (!windows.empty()) {
      const double length_s = start_s - windows.back().start_s;
      if (length_s < kMinWindowSeconds || length_s > kMaxWindowSeconds) {
        return lines->Error(
            absl::StrCat("start: ", start_s, " s after one of ",
                         windows.back().start_s, " s; ", kMinWindowSeconds,
                         " to ", kMaxWindowSeconds, " s later is expected"));
      }
      absl::Status status =
          CloseWindow(*lines, last_line_number, start_s, &windows.back());
      if (!status.ok()) return status;
    }
    windows.push_back({start_s, start_s, rate, *std::move(gaps)});
    last_line_number = lines->line_number();
  }
  if (windows.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no window; one line a window is expected"));
  }
  const double length_s =
      windows.size() == 1
          ? kOnlyWindowSeconds
          : windows.back().start_s - windows[windows.size() - 2].start_s;
  absl::Status status =
      CloseWindow(*lines, last_line_number, windows.back().start_s + length_s,
                  &windows.back());
  if (!status.ok()) return status;
  return windows;
}

}  // namespace firn::bench
