// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace firn::gpu_check {
namespace {

std::string NumberText(double number) {
  const double magnitude = std::fabs(number);
  if (number == std::floor(number) && magnitude < 1e15) {
    return absl::StrFormat("%.0f", number);
  }
  if (magnitude >= 1000) return absl::StrFormat("%.0f", number);
  if (magnitude >= 10) return absl::StrFormat("%.1f", number);
  return absl::StrFormat("%.2f", number);
}

// Whether all that a column holds is numbers.
bool IsNumeric(const Table& table, size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(),
                     [column](const Row& row) {
                       return column >= row.size() ||
                              std::holds_alternative<double>(row[column]);
                     });
}

void Append(std::string* line, const std::string& text, size_t width,
            bool right) {
  const std::string gap(width - std::min(width, text.size()), ' ');
  absl::StrAppend(line, "  ", right ? gap : "", text, right ? "" : gap);
}

}  // namespace

std::string CellText(const Cell& cell) {
  const double* const number = std::get_if<double>(&cell);
  return number != nullptr ? NumberText(*number) : std::get<std::string>(cell);
}

std::string ToText(const Table& table) {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    size_t width = table.columns[i].size();
    for (const Row& row : table.rows) {
      if (i < row.size()) width = std::max(width, CellText(row[i]).size());
    }
    widths.push_back(width);
    numeric.push_back(IsNumeric(table, i));
  }
  std::string text;
  const auto add_line = [&](auto cell_text, size_t cells) {
    std::string line;
    for (size_t i = 0; i < cells; ++i) {
      Append(&line, cell_text(i), widths[i], numeric[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add_line([&](size_t i) { return table.columns[i]; }, table.columns.size());
  for (const Row& row : table.rows) {
    add_line([&](size_t i) { return CellText(row[i]); },
             std::min(row.size(), table.columns.size()));
  }
  return text;
}

}  // namespace firn::gpu_check
