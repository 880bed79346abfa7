// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pins of a sequence of operations.

#ifndef FIRN_TESTS_CORE_PROPERTY_PIN_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_PIN_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "firn/core/pin.h"
#include "tests/core/property/account.h"

namespace firn::testing::property {

class PinAccount : public Account {
 public:
  // More would leave a pass nothing to do.
  static constexpr size_t kMostPins = 6;

  bool is_full() const { return held_.size() == kMostPins; }
  void Add(Pin pin, const LiveBlock& block, std::string reason);
  // The pin with this number, by its remainder; nothing happens without pins.
  void GiveUp(uint32_t number);

  // The block that the pin with this number holds, by its remainder; nullptr if
  // there is none.
  void* BlockOf(uint32_t number) const;
  bool IsPinned(const void* ptr) const;
  // The first reason for which the block is pinned; empty if it is not.
  std::string ReasonOf(const void* ptr) const;

  void Added(const LiveBlock& block) override;
  void Removed(const LiveBlock& block) override;
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;
  void LetGo() override { held_.clear(); }

 private:
  struct Held {
    Pin pin;
    uint64_t bytes = 0;
    std::string reason;
  };

  // Blocks of a class that does not move, by address, with their bytes.
  std::map<void*, uint64_t> unmovable_;
  bool had_unmovable_ = false;
  std::vector<Held> held_;  // in the order in which they were taken
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_PIN_ACCOUNT_H_
