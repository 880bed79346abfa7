// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/moving_choice.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/capabilities.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// Whether a refusal says something of this moment rather than of the device:
// its memory is used up, or a capture is open.
bool IsOfTheMoment(DriverResult refusal) {
  return refusal == DriverResult::kOutOfMemory ||
         refusal == DriverResult::kNotReady ||
         (refusal >= DriverResult::kStreamCaptureUnsupported &&
          refusal <= DriverResult::kStreamCaptureWrongThread);
}

}  // namespace

absl::StatusOr<bool> IsMovingTurnedOff() {
  const char* const variable = std::getenv("FIRN_MOVING");
  const absl::string_view by_hand = variable == nullptr ? "" : variable;
  if (by_hand.empty() || by_hand == "on") return false;
  if (by_hand == "off") return true;
  return absl::InvalidArgumentError(absl::StrCat(
      "FIRN_MOVING=", by_hand, ": use off or on, or leave it unset"));
}

absl::StatusOr<MovingChoice> ChooseMoving(Driver* driver, bool is_turned_off) {
  MovingChoice choice;
  DriverResult refusal = DriverResult::kSuccess;
  const ScopedRelaxedCapture relaxed(driver);
  const Capability memory = ProbeVirtualMemory(driver, &refusal);
  if (IsStickyResult(refusal)) return absl::DataLossError(memory.reason);
  choice.has_virtual_memory = memory.available || IsOfTheMoment(refusal);
  choice.is_on = choice.has_virtual_memory && !is_turned_off;
  if (!choice.has_virtual_memory) {
    choice.reason =
        absl::StrCat("no virtual memory management: ", memory.reason);
  } else if (is_turned_off) {
    choice.reason = "turned off by FIRN_MOVING=off";
  } else if (memory.available) {
    choice.reason = absl::StrCat("virtual memory management: ", memory.reason);
  } else {
    choice.reason = absl::StrCat(
        "virtual memory management was promised, but could not be tried: ",
        memory.reason);
  }
  return choice;
}

}  // namespace firn
