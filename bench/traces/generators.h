// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The traces that are made up: gen:NAME. All take the key seed; those that draw
// nothing at random ignore it.

#ifndef FIRN_BENCH_TRACES_GENERATORS_H_
#define FIRN_BENCH_TRACES_GENERATORS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Whether `path` is gen:NAME rather than a file.
bool IsGenerator(absl::string_view path);

// REQUIRES: IsGenerator(spec.path). InvalidArgument for an unknown name lists
// those there are.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenGenerator(
    const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_GENERATORS_H_
