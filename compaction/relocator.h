// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// HOW virtual granules move: copy their live extents on a background stream,
// wait until the copies are done, remap.

#ifndef FIRN_COMPACTION_RELOCATOR_H_
#define FIRN_COMPACTION_RELOCATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"

namespace firn {

// `vg` shall be mapped to `to`, with the contents of `extents`.
struct Relocation {
  VgIndex vg;
  GranuleId to;
  // A virtual granule mapped to `to`: the copy is written through it.
  VgIndex through;
  absl::Span<const OffsetInterval> extents;
};

// Thread safety: none; guarded by its owner.
class Relocator {
 public:
  // Creates the background stream and its event. Does not own its arguments,
  // which must outlive it.
  static absl::StatusOr<std::unique_ptr<Relocator>> Create(
      Driver* driver, const AddressSpace* address_space,
      MappingTable* mappings);
  ~Relocator();
  Relocator(const Relocator&) = delete;
  Relocator& operator=(const Relocator&) = delete;

  // Makes all of `moves`, or none: after an error every virtual granule is
  // mapped to what it was, with its contents intact; only bytes of the hosts
  // that nobody uses may have been written.
  //
  // The caller has proved that no work uses the moved virtual granules, nor
  // will until this returns, that the extents of the hosts are free, and that
  // no `through` is moved itself. No work may be waiting for this thread.
  absl::Status Relocate(absl::Span<const Relocation> moves);

 private:
  Relocator(Driver* driver, const AddressSpace* address_space,
            MappingTable* mappings, StreamHandle stream, EventHandle event);

  absl::Status Copy(absl::Span<const Relocation> moves);

  Driver* const driver_;
  const AddressSpace* const address_space_;
  MappingTable* const mappings_;
  const StreamHandle stream_;
  const EventHandle event_;
  std::vector<MappingChange> changes_;  // scratch
};

}  // namespace firn

#endif  // FIRN_COMPACTION_RELOCATOR_H_
