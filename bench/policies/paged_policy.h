// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages of one block size, as the block allocators of inference servers have
// them: a page is one granule, the lowest page with room is filled first, an
// empty page is given back at once, nothing ever moves.

#ifndef FIRN_BENCH_POLICIES_PAGED_POLICY_H_
#define FIRN_BENCH_POLICIES_PAGED_POLICY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/direct_blocks.h"
#include "bench/policies/page_store.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

class PagedPolicy : public Policy {
 public:
  explicit PagedPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "paged"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return pages_.usage(); }
  PolicyReport Report() override { return pages_.Report(live_bytes_); }

 private:
  PageStore pages_;  // the tags are requested bytes
  DirectBlocks own_pages_;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_PAGED_POLICY_H_
