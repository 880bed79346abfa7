// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// usage: firn_soak MODE SECONDS [SEED], MODE being lazy or draining.

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/soak/soak.h"

namespace firn::testing {
namespace {

int Refuse(absl::string_view why) {
  std::fprintf(stderr, "firn_soak: %s\n", std::string(why).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    return Refuse("expected MODE (lazy or draining), SECONDS and perhaps SEED");
  }
  SoakOptions options;
  const absl::string_view mode = argv[1];
  if (mode != "lazy" && mode != "draining") {
    return Refuse(absl::StrCat("MODE: '", mode, "'; must be lazy or draining"));
  }
  options.sync = mode == "lazy" ? CpuSync::kLazy : CpuSync::kDraining;
  uint32_t seconds = 0;
  if (!absl::SimpleAtoi(argv[2], &seconds) || seconds == 0) {
    return Refuse(absl::StrCat("SECONDS: '", argv[2],
                               "'; must be a whole number from 1 on"));
  }
  options.duration = absl::Seconds(seconds);
  if (argc == 4 && !absl::SimpleAtoi(argv[3], &options.seed)) {
    return Refuse(
        absl::StrCat("SEED: '", argv[3], "'; must be a whole number"));
  }
  const absl::StatusOr<SoakResult> result = RunSoak(options);
  if (!result.ok()) {
    std::fprintf(stderr, "firn_soak: %s\n", result.status().ToString().c_str());
    return 1;
  }
  std::printf(
      "operations=%llu checks=%llu captures=%llu "
      "failed_allocations=%llu refused_calls=%llu %s\n",
      static_cast<unsigned long long>(result->operations),
      static_cast<unsigned long long>(result->checks),
      static_cast<unsigned long long>(result->captures),
      static_cast<unsigned long long>(result->failed_allocations),
      static_cast<unsigned long long>(result->refused_calls),
      result->first_refusal.c_str());
  std::printf("%s\n", SoakLine(options, *result).c_str());
  return result->content_errors == 0 && result->sticky_errors == 0 &&
                 result->refused_calls == 0
             ? 0
             : 1;
}

}  // namespace
}  // namespace firn::testing

int main(int argc, char** argv) { return firn::testing::Main(argc, argv); }
