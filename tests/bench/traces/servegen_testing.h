// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small folders of ServeGen data, made by hand, for tests; and what is to be
// expected of a folder.

#ifndef FIRN_TESTS_BENCH_TRACES_SERVEGEN_TESTING_H_
#define FIRN_TESTS_BENCH_TRACES_SERVEGEN_TESTING_H_

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/traces/servegen_folder.h"
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

// What is to be expected of a folder whose data are played for `duration_s`,
// again from the start where they are shorter.
struct ServeGenLoad {
  double requests = 0;
  double tokens = 0;  // of prompts and answers
};
inline ServeGenLoad ExpectedLoad(const ServeGenFolder& folder,
                                 double duration_s) {
  const double rounds = std::floor(duration_s / folder.span_s);
  const double rest_s = duration_s - rounds * folder.span_s;
  ServeGenLoad load;
  for (const ServeGenClient& client : folder.clients) {
    for (const RateWindow& window : client.rates) {
      const double part = std::clamp(
          (rest_s - window.start_s) / (window.end_s - window.start_s), 0., 1.);
      const double requests = window.requests * (rounds + part);
      const LengthWindow& lengths = client.LengthsAt(window.start_s);
      load.requests += requests;
      load.tokens += requests * (lengths.input.mean_tokens() +
                                 lengths.output.mean_tokens());
    }
  }
  return load;
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_SERVEGEN_TESTING_H_
