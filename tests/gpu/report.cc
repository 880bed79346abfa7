// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/report.h"

#include <unistd.h>

#include <cerrno>

#include "nlohmann/json.hpp"
#include "tests/gpu/report_json.h"

namespace firn::gpu_check {

absl::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "unknown";
}

void Report::BeginStep(size_t index, absl::string_view name) {
  Write(DumpLine({{"step", index}, {"name", std::string(name)}}));
}

void Report::End(absl::string_view name, Outcome outcome,
                 absl::string_view why) {
  Write(DumpLine({{"end", std::string(name)},
                  {"outcome", std::string(OutcomeName(outcome))},
                  {"why", std::string(why)}}));
}

void Report::BeginTable(const Table& table) {
  Write(DumpLine({{"table", table.name},
                  {"title", table.title},
                  {"columns", table.columns}}));
}

void Report::AddRow(absl::string_view table, const Row& row) {
  Write(DumpLine({{"row", std::string(table)}, {"cells", ToJson(row)}}));
}

void Report::RowIfLost(absl::string_view table, const Row& row) {
  Write(
      DumpLine({{"row_if_lost", std::string(table)}, {"cells", ToJson(row)}}));
}

void Report::Note(absl::string_view text) {
  Write(DumpLine({{"note", std::string(text)}}));
}

void Report::Device(const DeviceFacts& facts) {
  Write(DumpLine({{"device", ToJson(facts)}}));
}

void Report::GoOnFrom(size_t index) {
  Write(DumpLine({{"go_on_from", index}}));
}

void Report::Done() { Write(DumpLine({{"done", true}})); }

void Report::Write(const std::string& line) {
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t result =
        write(fd_, line.data() + written, line.size() - written);
    if (result < 0 && errno != EINTR) return;  // nobody reads any more
    if (result > 0) written += static_cast<size_t>(result);
  }
}

}  // namespace firn::gpu_check
