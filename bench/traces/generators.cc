// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/generators.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/mixed.h"
#include "bench/traces/periodic.h"
#include "bench/traces/robson.h"
#include "bench/traces/same_offset.h"
#include "bench/traces/sawtooth.h"
#include "bench/traces/steady.h"
#include "bench/traces/synthetic_requests.h"
#include "bench/traces/training.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

constexpr absl::string_view kPrefix = "gen:";

struct Generator {
  absl::string_view name;
  absl::StatusOr<std::unique_ptr<TraceSource>> (*open)(const TraceSpec& spec);
};

constexpr Generator kGenerators[] = {
    {"kv", &OpenSyntheticRequests},
    {"mixed", &Mixed::Open},
    {"periodic", &Periodic::Open},
    {"robson", &Robson::Open},
    {"same_offset", &SameOffset::Open},
    {"sawtooth", &Sawtooth::Open},
    {"steady", &OpenSteady},
    {"training", &Training::Open},
};

}  // namespace

bool IsGenerator(absl::string_view path) {
  return absl::StartsWith(path, kPrefix);
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenGenerator(
    const TraceSpec& spec) {
  const absl::string_view name =
      absl::string_view(spec.path).substr(kPrefix.size());
  std::string names;
  for (const Generator& generator : kGenerators) {
    if (name == generator.name) return generator.open(spec);
    absl::StrAppend(&names, names.empty() ? "" : ", ", kPrefix, generator.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "trace ", Quoted(spec.path), ": no such generator; there are ", names));
}

}  // namespace firn::bench
