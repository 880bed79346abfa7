// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A table of results, for people.

#ifndef FIRN_TESTS_GPU_TABLE_H_
#define FIRN_TESTS_GPU_TABLE_H_

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace firn::gpu_check {

// Text or a number.
using Cell = std::variant<std::string, double>;

template <typename Number>
Cell NumberCell(Number value) {
  return static_cast<double>(value);
}
inline Cell TextCell(absl::string_view text) { return std::string(text); }

using Row = std::vector<Cell>;

struct Table {
  std::string name;   // "calls"
  std::string title;  // one line
  std::vector<std::string> columns;
  std::vector<Row> rows;  // of as many cells
};

// Whole numbers as they are, others with what digits mean something.
std::string CellText(const Cell& cell);

// The columns' names and the rows, aligned: numbers to the right.
std::string ToText(const Table& table);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_TABLE_H_
