// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Moves all that is live on a granule to one that nobody has: from the device
// to the host, and back.

#ifndef FIRN_CORE_GRANULE_TRANSFER_H_
#define FIRN_CORE_GRANULE_TRANSFER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/compaction/relocator.h"
#include "firn/core/arena.h"
#include "firn/vmm/units.h"

namespace firn {

// `from` has something live, all of it the arena's; `to` is acquired, without
// mappings, and of the host exactly where `from` is not.
struct GranuleTransfer {
  Arena* arena = nullptr;
  GranuleId from;
  GranuleId to;
};

// Makes all of them, or none: then everything is as it was, but that a `to` may
// have been written, and is nobody's. Each `to` is zeroed first where it may
// have held what is of another domain. A granule of the device keeps its other
// mappings, and is empty; one of the host loses them. What has no mapping then
// goes to the store. Adds to `quanta` what was copied.
//
// The caller has proved that no work uses what moves, nor will until this
// returns.
absl::Status TransferGranules(absl::Span<const GranuleTransfer> transfers,
                              Relocator* relocator, uint64_t* quanta);

}  // namespace firn

#endif  // FIRN_CORE_GRANULE_TRANSFER_H_
