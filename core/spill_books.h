// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool knows of spilling as a whole: whether and how far it may, which
// granules of host memory wait to be given back, and when it was last in vain.

#ifndef FIRN_CORE_SPILL_BOOKS_H_
#define FIRN_CORE_SPILL_BOOKS_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/vmm/units.h"

namespace firn {

// Thread safety: none; guarded by its owner.
class SpillBooks {
 public:
  // `why_off` says why nothing is ever spilled; empty where it may be.
  SpillBooks(uint32_t limit_granules, std::string why_off)
      : limit_granules_(why_off.empty() ? limit_granules : 0),
        why_off_(std::move(why_off)) {}

  const std::string& why_off() const { return why_off_; }
  uint32_t limit_granules() const { return limit_granules_; }

  // What an attempt for so many granules found out to be in vain stays so for
  // as many and more in the same arena, while none of these events happens:
  // something is freed, declared, or comes back.
  struct Attempt {
    std::array<uint64_t, 3> events = {};
    uint32_t arena = 0;
    uint32_t granules = 0;
  };
  void NoteInVain(const Attempt& attempt) {
    in_vain_ = attempt;
    is_known_in_vain_ = true;
  }
  bool IsInVain(const Attempt& attempt) const {
    return is_known_in_vain_ && attempt.events == in_vain_.events &&
           attempt.arena == in_vain_.arena &&
           attempt.granules >= in_vain_.granules;
  }

  // Granules of host memory on which less is live than was.
  std::vector<GranuleId>& left_granules() { return left_granules_; }

  // Keeps what the driver said, for the report of a failed allocation.
  absl::string_view KeepRefusal(std::string refusal) {
    refusal_ = std::move(refusal);
    return refusal_;
  }

 private:
  const uint32_t limit_granules_;
  const std::string why_off_;
  bool is_known_in_vain_ = false;
  Attempt in_vain_;
  std::vector<GranuleId> left_granules_;
  std::string refusal_;
};

}  // namespace firn

#endif  // FIRN_CORE_SPILL_BOOKS_H_
