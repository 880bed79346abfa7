// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The domains of a sequence of operations, and what is allocated in them.

#ifndef FIRN_TESTS_CORE_PROPERTY_DOMAIN_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_DOMAIN_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/core/domain.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "tests/core/property/account.h"
#include "tests/core/property/limit_account.h"

namespace firn::testing::property {

class DomainAccount : public Account {
 public:
  static constexpr size_t kMostOpen = 3;

  bool is_full() const { return open_.size() >= kMostOpen; }
  // Whether there ever was one.
  bool are_used() const { return last_id_ > 0; }
  // Whether the name may, and whether it must, be refused.
  bool MayBeTaken(absl::string_view name) const;
  bool IsTaken(absl::string_view name) const;
  // Internal: it has an id that another one had.
  absl::Status Add(Domain domain, const DomainOptions& options,
                   uint64_t granule_bytes);
  // The open domain with this number, by its remainder; nothing happens without
  // any.
  void Close(uint32_t number);

  // 0: none; else one of those on record, by the remainder, given up or not.
  DomainId Pick(uint32_t number) const;
  DomainId Unknown() const { return DomainId{last_id_ + 1}; }
  bool IsOpen(DomainId id) const;
  void CountFailedAllocation(DomainId id);
  // It has `mapped_bytes` now.
  void SetLimit(DomainId id, const MemoryLimit& limit, uint64_t granule_bytes,
                uint64_t mapped_bytes);
  // ~0: none.
  uint64_t HardLimitOf(DomainId id) const;

  // Internal: blocks of different domains or classes share a granule, or an
  // exportable one shares its own. Looks at every granule of every block.
  static absl::Status CheckGranules(const std::vector<LiveBlock>& blocks,
                                    uint64_t granule_bytes, CpuDriver* driver);

  void Added(const LiveBlock& block) override;
  void Removed(const LiveBlock& block) override;
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;
  void LetGo() override;

 private:
  struct Entry {
    DomainStats expected;
    LimitedBytes mapped;
  };

  absl::Status CheckOne(const DomainStats& is, Entry* entry);
  absl::Status CheckSums(const std::vector<DomainStats>& all,
                         const PoolStats& stats);

  std::vector<Domain> open_;
  std::map<DomainId, Entry> entries_;  // those that may be in the statistics
  bool have_some_gone_ = false;
  // The driver may have kept a granule that was to be released: it is held, and
  // neither mapped nor cached, until it is taken back.
  bool may_be_retiring_ = false;
  uint32_t last_id_ = 0;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_DOMAIN_ACCOUNT_H_
