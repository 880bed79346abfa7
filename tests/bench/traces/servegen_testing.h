// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small folders of ServeGen data, made by hand, for tests.

#ifndef FIRN_TESTS_BENCH_TRACES_SERVEGEN_TESTING_H_
#define FIRN_TESTS_BENCH_TRACES_SERVEGEN_TESTING_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/bench/traces/trace_testing.h"

namespace firn::bench {

// A folder that holds just these files, by name. The next call in the same test
// replaces it.
inline std::string WriteServeGenFolder(
    const std::map<std::string, std::string>& files) {
  std::string folder = WriteFile("x", "");
  folder.resize(folder.rfind('/'));
  std::filesystem::remove_all(folder);
  for (const auto& [name, contents] : files) WriteFile(name, contents);
  return folder;
}

// The dataset of a client whose prompts and answers have those lengths, in the
// form "5: 0.5, 6: 0.5".
inline std::string LengthsFile(absl::string_view input,
                               absl::string_view output) {
  return absl::StrCat(R"({"0": {"input_tokens": "{)", input,
                      R"(}", "output_tokens": "{)", output, R"(}"}})");
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_SERVEGEN_TESTING_H_
