// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// To whom the patterns belong that blocks are filled with: what a new block
// shows of others must be its own domain's.

#ifndef FIRN_TESTS_CORE_PROPERTY_PATTERN_OWNERS_H_
#define FIRN_TESTS_CORE_PROPERTY_PATTERN_OWNERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/mutex.h"
#include "tests/support/filled_blocks.h"

namespace firn::testing::property {

// Thread safety: all methods may be called from any thread.
class PatternOwners {
 public:
  // Of what nobody may see again.
  static constexpr uint32_t kNobody = ~uint32_t{0};

  // No pattern goes on for longer than this.
  explicit PatternOwners(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  void Set(uint64_t seed, uint32_t owner);
  // Looks at some words of a block that was given out, and to which nothing was
  // written since: they are of no pattern but the owner's, or zero where they
  // must be. Only where storage is real.
  void CheckFresh(const FilledBlock& block, uint32_t owner, bool must_be_zero);
  // What was wrong first; empty while nothing is.
  std::string text() const;

 private:
  // Whose word it is, if it starts a quantum of a pattern.
  std::optional<uint32_t> FindOwner(uint64_t word)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t most_bytes_;
  mutable Mutex mutex_;
  std::vector<uint32_t> owners_ ABSL_GUARDED_BY(mutex_);  // by seed
  // Looked up last, and nobody's: fresh memory is full of one word.
  uint64_t unknown_word_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_PATTERN_OWNERS_H_
