// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// For functions that end at the first call that fails.

#ifndef FIRN_TESTS_GPU_STATUS_FLOW_H_
#define FIRN_TESTS_GPU_STATUS_FLOW_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/driver_status.h"

namespace firn::gpu_check {

// Whether a status means that the device cannot do it, or that it is not
// allowed here. Any other that is not OK means that a call failed that should
// have worked.
inline bool IsNotPossible(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsPermissionDenied(status);
}

}  // namespace firn::gpu_check

// Returns the status of an expression unless it is OK.
#define FIRN_TRY(expression)                   \
  do {                                         \
    absl::Status firn_status = (expression);   \
    if (!firn_status.ok()) return firn_status; \
  } while (false)

// The same for a driver's result; `name` is the call.
#define FIRN_TRY_CALL(name, result) FIRN_TRY(::firn::ToStatus((result), name))

// Assigns what a StatusOr holds, or returns its status.
#define FIRN_TRY_ASSIGN(lhs, expression) \
  FIRN_TRY_ASSIGN_AS(FIRN_TRY_NAME(firn_result_, __LINE__), lhs, expression)
#define FIRN_TRY_ASSIGN_AS(name, lhs, expression) \
  auto name = (expression);                       \
  if (!name.ok()) return name.status();           \
  lhs = *std::move(name)
#define FIRN_TRY_NAME(prefix, line) FIRN_TRY_JOIN(prefix, line)
#define FIRN_TRY_JOIN(prefix, line) prefix##line

#endif  // FIRN_TESTS_GPU_STATUS_FLOW_H_
