// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A strict reader of Prometheus' text format 0.0.4, as far as the library
// writes it: what it takes, every scraper takes.

#ifndef FIRN_TESTS_CORE_PROMETHEUS_TEXT_H_
#define FIRN_TESTS_CORE_PROMETHEUS_TEXT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::testing {

struct PrometheusSample {
  std::map<std::string, std::string> labels;  // unescaped
  std::string value;                          // as it stands there
};

struct PrometheusFamily {
  std::string name;
  std::string help;  // as it stands there
  std::string type;  // "gauge" or "counter"
  std::vector<PrometheusSample> samples;
};

// The families in their order; InvalidArgument quotes the line that breaks the
// format: each family begins with HELP and TYPE, has samples of its own name
// only, and is there once; no two samples of it have the same labels; every
// line ends with a newline.
absl::StatusOr<std::vector<PrometheusFamily>> ReadPrometheus(
    absl::string_view text);

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_PROMETHEUS_TEXT_H_
