// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the live memory of a pool may move at all: what the environment says,
// and what the device can do.

#ifndef FIRN_CORE_MOVING_CHOICE_H_
#define FIRN_CORE_MOVING_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"

namespace firn {

struct MovingChoice {
  // Physical memory can be mapped at addresses of the pool's choice: what the
  // pool that moves is built on. Where it cannot, there is one that does not.
  bool has_virtual_memory = true;
  // Live memory may move.
  bool is_on = true;
  // Why, or why not, in one sentence.
  std::string reason;
};

// FIRN_MOVING=off|on of the environment: true for off. InvalidArgument for
// another value.
absl::StatusOr<bool> IsMovingTurnedOff();

// Asks the device and tries it with one granule, which it gives back: with some
// drivers that waits for all work of the device. Fails only where the driver
// can do nothing at all any more.
absl::StatusOr<MovingChoice> ChooseMoving(Driver* driver, bool is_turned_off);

}  // namespace firn

#endif  // FIRN_CORE_MOVING_CHOICE_H_
