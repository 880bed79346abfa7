// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA's rule for memory that is mapped at several addresses: what an operation
// writes through one of them is incoherent with reads through another, unless
// the write completed before the reading operation began.

#ifndef FIRN_VMM_CPU_COHERENCE_CHECKER_H_
#define FIRN_VMM_CPU_COHERENCE_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "firn/vmm/cpu/access_history.h"
#include "firn/vmm/cpu/access_range.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/cpu/work_order.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

// "Completed before" is a matter of the order that streams, events and waits
// make, not of what happens to have ended: a run with lucky timing breaks the
// rule as well as an unlucky one. So does one piece of work that reads through
// one address what it writes through another. Writes through two addresses are
// not reported: the rule speaks of reads.
//
// Thread safety: all methods may be called from any thread at any time. The
// work of one stream begins in order.
class CoherenceChecker {
 public:
  explicit CoherenceChecker(CpuDefect defect = CpuDefect::kNone)
      : defect_(defect) {}

  // Work begins that accesses `ranges`. Returns "", or one line that describes
  // the first conflict with work that began before. `name`, for reports of this
  // and later work, lives for ever. `order` is transitive: what was complete
  // before work that it is after, it is after, too.
  std::string Begin(const WorkOrder& order, const char* name,
                    absl::Span<const PhysicalRange> ranges);
  // That memory is gone.
  void Forget(uint64_t memory_id);
  // All work to come is ordered after all of that stream's, whatever it says it
  // has seen: clocks may leave the stream out.
  void ForgetStream(uint64_t stream_id);

  // How many accesses are remembered, for tests of how few they are.
  size_t record_count() const;

 private:
  const CpuDefect defect_;
  mutable Mutex mutex_;
  // Of these, records may still be there.
  absl::flat_hash_set<uint64_t> retired_streams_ ABSL_GUARDED_BY(mutex_);
  // By memory id.
  absl::flat_hash_map<uint64_t, AccessHistory> memories_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_COHERENCE_CHECKER_H_
