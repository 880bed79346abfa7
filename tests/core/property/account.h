// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a sequence of operations keeps on record of one thing that a pool can be
// asked for, beside the blocks themselves.

#ifndef FIRN_TESTS_CORE_PROPERTY_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_ACCOUNT_H_

#include "absl/status/status.h"
#include "firn/core/pool.h"
#include "firn/core/pool_stats.h"
#include "firn/vmm/driver_types.h"
#include "tests/core/property/shadow.h"

namespace firn::testing::property {

// State has one for each thing and tells it of all that happens. Errors say
// what is not as it must be.
class Account {
 public:
  virtual ~Account() = default;

  // A block was allocated; a block is about to leave the shadow, as it was
  // freed.
  virtual void Added(const LiveBlock& /*block*/) {}
  virtual void Removed(const LiveBlock& /*block*/) {}
  // The stream is gone, its work ordered before that of the default stream.
  // Another one may get its handle.
  virtual void StreamGone(StreamHandle /*stream*/) {}
  // An operation is over; `stats` are of now. `was_faulted`: a driver call of
  // it was made to fail.
  virtual absl::Status AfterOperation(const Pool& /*pool*/,
                                      const PoolStats& /*stats*/,
                                      bool /*was_faulted*/) {
    return absl::OkStatus();
  }
  // The sequence is over: nothing may keep blocks from being freed.
  virtual void LetGo() {}
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_ACCOUNT_H_
