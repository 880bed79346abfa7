// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The one place where a driver's result becomes an absl::Status.

#ifndef FIRN_VMM_DRIVER_STATUS_H_
#define FIRN_VMM_DRIVER_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// The CUDA name of `result`, e.g. "CUDA_ERROR_OUT_OF_MEMORY", or "unknown
// result" for a value that vmm/driver_types.h does not list.
absl::string_view DriverResultName(DriverResult result);

// True for results after which the device is lost: every later call fails.
// Those of which cuda.h says that the process is left in an inconsistent state,
// a kernel's failed assertion, and a driver that has shut down.
bool IsStickyResult(DriverResult result);

// OkStatus for kSuccess; else a status whose message reads
// "<call>: <name> (<number>)", followed by ": <detail>" where given.
// OUT_OF_MEMORY is ResourceExhausted; NOT_READY is Unavailable; NOT_SUPPORTED
// is Unimplemented; NOT_PERMITTED is PermissionDenied; INVALID_VALUE and
// INVALID_HANDLE are Internal (firn's own call was wrong); sticky results are
// DataLoss, and the message ends in "; the device is lost"; everything else is
// Internal.
absl::Status ToStatus(DriverResult result, absl::string_view call,
                      absl::string_view detail = "");

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_STATUS_H_
