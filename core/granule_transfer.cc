// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/granule_transfer.h"

#include <cstddef>
#include <deque>
#include <vector>

namespace firn {
namespace {

VgRange OneVg(VgIndex vg) {
  VgRange range;
  range.first = vg;
  range.count = 1;
  return range;
}

// The moves of one transfer, in the order in which they are published.
struct Moves {
  size_t begin = 0;
  size_t end = 0;
};

// Appends a move of each virtual granule that leaves. Extents are kept in
// `extents`, whose elements stay where they are.
void AppendMoves(const GranuleTransfer& transfer,
                 std::deque<std::vector<OffsetInterval>>* extents,
                 std::vector<Relocation>* relocations) {
  const GranuleBooks& books = transfer.arena->books;
  const GranuleRecord& from = books.granule(transfer.from);
  const bool zeroes = transfer.arena->backing.IsForeign(transfer.to);
  for (VgIndex at = from.first; !at.is_none(); at = books.vg(at).next) {
    const VgRecord& record = books.vg(at);
    Relocation move;
    move.vg = at;
    if (record.role == VgRole::kSpare) {
      // Left behind by what was freed while it was on the host.
      if (from.is_host) relocations->push_back(move);
      continue;
    }
    std::vector<OffsetInterval>& live = extents->emplace_back();
    transfer.arena->compactor.AppendLiveExtents(at, &live);
    move.to = transfer.to;
    move.extents = live;
    move.zeroes = zeroes;
    relocations->push_back(move);
  }
}

void Publish(const GranuleTransfer& transfer,
             absl::Span<const Relocation> relocations, uint64_t* quanta) {
  Arena& arena = *transfer.arena;
  GranuleBooks& books = arena.books;
  const bool from_host = books.granule(transfer.from).is_host;
  if (arena.placed != nullptr) arena.placed->CloseAllOn(transfer.from);
  books.SetHost(transfer.to, !from_host);
  arena.backing.NoteOwn(transfer.to);
  for (const Relocation& done : relocations) {
    const VgRecord& record = books.vg(done.vg);
    if (done.to.is_none()) {
      books.Detach(done.vg);
      arena.backing.address_space().Give(OneVg(done.vg));
      continue;
    }
    for (const OffsetInterval& extent : done.extents) {
      *quanta += extent.quanta();
    }
    if (record.role == VgRole::kInterior) {
      books.MoveInterior(done.vg, transfer.to);
      continue;
    }
    if (record.role == VgRole::kWindow) arena.windows.PrepareMove(record.owner);
    books.Move(done.vg, transfer.to, done.extents.data(), done.extents.size());
  }
  arena.windows.UnblockAll(transfer.from);
  arena.backing.CacheIfUnmapped(transfer.from);
  if (from_host) books.SetHost(transfer.from, false);
}

}  // namespace

absl::Status TransferGranules(absl::Span<const GranuleTransfer> transfers,
                              Relocator* relocator, uint64_t* quanta) {
  std::deque<std::vector<OffsetInterval>> extents;
  std::vector<Relocation> relocations;
  std::vector<Moves> moves;
  for (const GranuleTransfer& transfer : transfers) {
    Moves of_one;
    of_one.begin = relocations.size();
    AppendMoves(transfer, &extents, &relocations);
    of_one.end = relocations.size();
    moves.push_back(of_one);
  }
  const absl::Status moved = relocator->Relocate(relocations);
  if (!moved.ok()) {
    // Part of the contents may be there, for nobody else to see.
    for (const GranuleTransfer& transfer : transfers) {
      transfer.arena->backing.store().SetContentsOf(transfer.to, 0);
    }
    return moved;
  }
  for (size_t i = 0; i < transfers.size(); ++i) {
    Publish(transfers[i],
            absl::MakeConstSpan(relocations)
                .subspan(moves[i].begin, moves[i].end - moves[i].begin),
            quanta);
  }
  return absl::OkStatus();
}

}  // namespace firn
