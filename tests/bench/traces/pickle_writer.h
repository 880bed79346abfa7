// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes pickles of builtin values, of protocol 2, for tests.

#ifndef FIRN_TESTS_BENCH_TRACES_PICKLE_WRITER_H_
#define FIRN_TESTS_BENCH_TRACES_PICKLE_WRITER_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// Each gives the opcodes of one value; Pickled makes a file of it.
inline std::string PickledNumber(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

inline std::string PickledText(absl::string_view text) {
  return absl::StrCat("X", PickledNumber(text.size(), 4), text);
}

// LONG1 of 8 bytes.
inline std::string PickledInteger(int64_t value) {
  return absl::StrCat("\x8a\x08",
                      PickledNumber(static_cast<uint64_t>(value), 8));
}

inline std::string PickledList(const std::vector<std::string>& items) {
  std::string text = "](";
  for (const std::string& item : items) text += item;
  return text + "e";
}

inline std::string PickledDict(
    std::initializer_list<std::pair<absl::string_view, std::string>> items) {
  std::string text = "}(";
  for (const auto& [key, value] : items) {
    absl::StrAppend(&text, PickledText(key), value);
  }
  return text + "u";
}

inline std::string Pickled(const std::string& value) {
  return absl::StrCat("\x80\x02", value, ".");
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_PICKLE_WRITER_H_
