// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which stream of which context, and of which kind.

#ifndef FIRN_VMM_CPU_STREAM_IDENTITY_H_
#define FIRN_VMM_CPU_STREAM_IDENTITY_H_

#include <cstdint>

namespace firn::cpu {

// A context of a device, as what belongs to it knows it.
struct StreamContext {
  static constexpr int kNone = -1;

  int id = kNone;
  int device = 0;
};

struct StreamIdentity {
  uint64_t id = 0;
  StreamContext context;
  // Ordered with the context's legacy stream, which is blocking itself.
  bool blocking = true;
  bool legacy = false;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_IDENTITY_H_
