// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/misuse_stage.h"

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn::gpu_check {

void MisuseStage::Set(const char* call, DriverResult result) {
  if (result == DriverResult::kSuccess || !failure_.empty()) return;
  failure_ =
      absl::StrCat("no setting: ", call, " gave ", DriverResultName(result));
}

}  // namespace firn::gpu_check
