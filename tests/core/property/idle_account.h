// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The blocks that a sequence of operations has declared idle or read-only, and
// what a pass must leave where it is that moves nothing else.

#ifndef FIRN_TESTS_CORE_PROPERTY_IDLE_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_IDLE_ACCOUNT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/pool.h"
#include "tests/core/property/account.h"
#include "tests/core/property/shadow.h"

namespace firn::testing::property {

class IdleAccount : public Account {
 public:
  // It was declared so: the later declaration counts.
  void Declare(const LiveBlock& block, bool read_only = false);
  // It is in use again: within a pass that moves what is idle alone it has to
  // stay from now on.
  void Activate(const LiveBlock& block);
  bool IsDeclared(const void* ptr) const { return declared_.count(ptr) > 0; }
  bool IsReadOnly(const void* ptr) const;
  bool IsIdle(const void* ptr) const {
    return IsDeclared(ptr) && !IsReadOnly(ptr);
  }
  // Whether a pass may move it that has begun: what is read-only only in a pool
  // with scopes.
  bool MayMove(const void* ptr) const {
    return has_scopes_ ? IsDeclared(ptr) : IsIdle(ptr);
  }

  // A pass is about to begin that moves nothing but declared memory: on virtual
  // granules of which every block is.
  void BeginPass(Pool& pool, const std::vector<LiveBlock>& blocks);
  // It is over, and has moved so many virtual granules. Internal: it has moved
  // what had to stay.
  absl::Status EndPass(const Pool& pool, uint64_t moves);
  bool is_in_pass() const { return is_in_pass_; }

  // So far: declarations, passes that moved something, and of these such as
  // closed the gate, virtual granules they moved, and blocks that were in use
  // again while a pass was about to move them.
  uint64_t declarations() const { return declarations_; }
  uint64_t passes() const { return passes_; }
  uint64_t gated_passes() const { return gated_passes_; }
  uint64_t moves() const { return moves_; }
  uint64_t rescued() const { return rescued_; }

  void Removed(const LiveBlock& block) override;
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;

 private:
  struct Declared {
    uint64_t bytes = 0;
    bool read_only = false;
  };
  struct Total {
    uint64_t blocks = 0;
    uint64_t bytes = 0;
  };
  void Withdraw(const void* ptr);
  Total& TotalOf(const Declared& declared) {
    return declared.read_only ? read_only_ : idle_;
  }

  std::map<const void*, Declared> declared_;
  Total idle_;
  Total read_only_;
  bool has_scopes_ = false;
  uint64_t closings_before_ = 0;
  bool is_in_pass_ = false;
  // By address, with the generation that they must keep.
  std::map<const void*, uint64_t> must_stay_;
  uint64_t declarations_ = 0;
  uint64_t passes_ = 0;
  uint64_t gated_passes_ = 0;
  uint64_t moves_ = 0;
  uint64_t rescued_ = 0;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_IDLE_ACCOUNT_H_
