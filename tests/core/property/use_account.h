// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Uses of blocks that a pool was told of, and that nothing else orders before
// the block is freed.

#ifndef FIRN_TESTS_CORE_PROPERTY_USE_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_USE_ACCOUNT_H_

#include <algorithm>
#include <map>
#include <vector>

#include "tests/core/property/account.h"

namespace firn::testing::property {

// Of one block.
struct RecordedUses {
  std::vector<StreamHandle> streams;
  bool have_written = false;
};

class UseAccount : public Account {
 public:
  void Add(const void* ptr, StreamHandle stream, bool writes) {
    RecordedUses& uses = of_[ptr];
    uses.streams.push_back(stream);
    uses.have_written |= writes;
  }
  // nullptr: none.
  const RecordedUses* Find(const void* ptr) const {
    const auto found = of_.find(ptr);
    return found == of_.end() ? nullptr : &found->second;
  }
  // The block's last use is ordered behind all of them.
  void Forget(const void* ptr) { of_.erase(ptr); }

  void Removed(const LiveBlock& block) override { Forget(block.content.ptr); }
  void StreamGone(StreamHandle stream) override {
    for (auto& [ptr, uses] : of_) {
      std::replace(uses.streams.begin(), uses.streams.end(), stream,
                   StreamHandle{nullptr});
    }
  }

 private:
  std::map<const void*, RecordedUses> of_;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_USE_ACCOUNT_H_
