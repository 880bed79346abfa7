// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/trace_spec.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {

absl::StatusOr<TraceSpec> ParseTraceSpec(absl::string_view text) {
  TraceSpec spec;
  spec.text = std::string(text);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  spec.path = std::string(parts[0]);
  if (spec.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace ", Quoted(text),
                     ": no file; give FILE, DIR or gen:NAME, then "
                     ",key=value for each key"));
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == absl::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.path, ": ", Quoted(parts[i]),
                       " after a comma is not key=value"));
    }
    TraceKey key{std::string(parts[i].substr(0, equals)),
                 std::string(parts[i].substr(equals + 1))};
    for (const TraceKey& earlier : spec.keys) {
      if (earlier.key == key.key) {
        return absl::InvalidArgumentError(absl::StrCat(
            spec.path, ": key ", Quoted(key.key), " is given twice"));
      }
    }
    spec.keys.push_back(std::move(key));
  }
  return spec;
}

}  // namespace firn::bench
