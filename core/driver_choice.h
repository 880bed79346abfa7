// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which driver a pool stands on when its options name none.

#ifndef FIRN_CORE_DRIVER_CHOICE_H_
#define FIRN_CORE_DRIVER_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"

namespace firn {

struct DriverChoice {
  std::shared_ptr<Driver> driver;
  std::string reason;  // in one sentence
};

// The CUDA device where it is usable, even if no memory can be moved on it,
// else the CPU driver with real storage: the reason tells. FIRN_DRIVER=cuda|cpu
// in the environment decides by hand. InvalidArgument for another value;
// Unavailable, with the reason, if FIRN_DRIVER=cuda asks for a device that
// cannot be used.
absl::StatusOr<DriverChoice> ChooseDriver(int device_ordinal);

}  // namespace firn

#endif  // FIRN_CORE_DRIVER_CHOICE_H_
