// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// HOW virtual granules move: copy their live extents on a background stream,
// wait until the copies are done, remap. And how memory that passes from one
// domain to another is zeroed.

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

// `vg` shall be mapped to `to`, with the contents of `extents`. A granule of
// any kind will do: to one of host memory `vg` is spilled, and from it brought
// back. None: it is unmapped, and has no extents.
struct Relocation {
  VgIndex vg;
  GranuleId to;
  // A virtual granule mapped to `to`: the copy is written through it. None: an
  // address is taken and mapped to `to` for the time of the move.
  VgIndex through;
  absl::Span<const OffsetInterval> extents;
  // `to`, on which nothing is live and to which nothing shows the way, is
  // filled with zeros first.
  bool zeroes = false;
};

// Thread safety: none; guarded by its owner.
class Relocator {
 public:
  // Creates the background stream and its event. Does not own its arguments,
  // which must outlive it.
  static absl::StatusOr<std::unique_ptr<Relocator>> Create(
      Driver* driver, AddressSpace* address_space, MappingTable* mappings);
  ~Relocator();
  Relocator(const Relocator&) = delete;
  Relocator& operator=(const Relocator&) = delete;

  // Makes all of `moves`, or none: after an error every virtual granule is
  // mapped to what it was, with its contents intact; only bytes of the hosts
  // that nobody uses may have been written. ResourceExhausted if no address is
  // left for a move without a host, or no mapping in the table's budget.
  //
  // An address that was taken goes back, whatever happens; but one that cannot
  // be unmapped is the mapping table's lost one from then on, and what it
  // reaches is quarantined.
  //
  // The caller has proved that no work uses the moved virtual granules, nor
  // will until this returns, that the extents of the hosts are free, and that
  // no `through` is moved itself. No work may be waiting for this thread.
  absl::Status Relocate(absl::Span<const Relocation> moves);

  // The same in three steps, for a caller that lets others go on while the
  // copies are made. Every Prepare that succeeds is followed by one Commit or
  // Abort, before the next one and before Relocate.
  //
  // Maps what copies are written through: an address that is taken, wherever
  // `through` is none. After an error nothing has changed.
  absl::Status Prepare(absl::Span<const Relocation> moves);
  // Copies, and waits until that is done; may be called again with other ones
  // of the moves that were prepared. From any thread and without the owner's
  // lock: it changes nothing that others see. After an error Abort follows.
  absl::Status Copy(absl::Span<const Relocation> moves);
  // Remaps `moves`, which were copied: all of them, or none. Either way it is
  // over then.
  absl::Status Commit(absl::Span<const Relocation> moves);
  // Gives up the moves that were prepared, for `cause`.
  void Abort(absl::Span<const Relocation> moves, const absl::Status& cause);

  // Fills mapped virtual granules, which no work uses, with zeros, and waits
  // until that is done; also while another thread is in Copy. After an error
  // their contents are undefined; where the device does not say that it has
  // ended, they are the mapping table's lost ones.
  absl::Status Zero(absl::Span<const VgIndex> vgs);

 private:
  // An address through which copies are written to a granule.
  struct Alias {
    GranuleId granule;
    VgIndex vg;
    bool zeroes = false;  // before the first copy
  };

  Relocator(Driver* driver, AddressSpace* address_space, MappingTable* mappings,
            StreamHandle stream, EventHandle event);

  // Takes and maps an alias for each host that something is to be copied to,
  // and none stands for.
  absl::Status MapAliases(absl::Span<const Relocation> moves);
  absl::Status QueueCopies(absl::Span<const Relocation> moves);
  absl::Status ConfirmCopies();
  absl::Status Remap(absl::Span<const Relocation> moves);

  // The way back, after `cause`.
  bool WaitForCopiesInFlight();
  // Copies may still be reading and writing there: nobody else ever may.
  void AbandonMoves(absl::Span<const Relocation> moves,
                    const absl::Status& cause);
  void DropAliases(const absl::Status& cause);
  bool UnmapAlias(VgIndex vg);
  void GiveBack(VgIndex vg);

  // None if `granule` has no alias.
  VgIndex AliasOf(GranuleId granule) const;

  Driver* const driver_;
  AddressSpace* const address_space_;
  MappingTable* const mappings_;
  const StreamHandle stream_;
  const EventHandle event_;
  std::vector<Alias> aliases_;          // of the moves being made, by granule
  std::vector<MappingChange> changes_;  // scratch
  // Written by Copy, and read by those that come after it.
  bool copies_have_ended_ = true;
};

}  // namespace firn

#endif  // FIRN_COMPACTION_RELOCATOR_H_
