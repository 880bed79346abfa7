// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which stream of which device, and of which kind.

#ifndef FIRN_VMM_CPU_STREAM_IDENTITY_H_
#define FIRN_VMM_CPU_STREAM_IDENTITY_H_

#include <cstdint>

namespace firn::cpu {

struct StreamIdentity {
  uint64_t id = 0;
  int device = 0;
  // Ordered with the device's legacy stream, which is blocking itself.
  bool blocking = true;
  bool legacy = false;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_IDENTITY_H_
