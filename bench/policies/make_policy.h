// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the policy that a name stands for.

#ifndef FIRN_BENCH_POLICIES_MAKE_POLICY_H_
#define FIRN_BENCH_POLICIES_MAKE_POLICY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

// The values that PolicyOptions::policy may have.
std::vector<absl::string_view> PolicyNames();

// Whether such a policy moves memory meanwhile, on the trace's clock.
bool CompactsInBackground(const PolicyOptions& options);

// InvalidArgument names what is wrong with the options.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(
    const PolicyOptions& options);

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_MAKE_POLICY_H_
