// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/move_batch.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/time/clock.h"

namespace firn {
namespace {

bool MayMove(const VgRecord& record) {
  return record.role == VgRole::kWindow || record.role == VgRole::kRemainder ||
         record.role == VgRole::kPlaced;
}

// Of lists that are sorted and do not touch.
bool AreWithin(absl::Span<const OffsetInterval> inner,
               absl::Span<const OffsetInterval> outer) {
  size_t i = 0;
  for (const OffsetInterval& extent : inner) {
    while (i < outer.size() && outer[i].hi < extent.hi) ++i;
    if (i == outer.size() || outer[i].lo > extent.lo) return false;
  }
  return true;
}

uint64_t QuantaOf(absl::Span<const OffsetInterval> extents) {
  uint64_t quanta = 0;
  for (const OffsetInterval& extent : extents) quanta += extent.quanta();
  return quanta;
}

std::ptrdiff_t Signed(size_t index) {
  return static_cast<std::ptrdiff_t>(index);
}

}  // namespace

MoveBatch::MoveBatch(Backing* backing, WindowAllocator* windows,
                     PlacementAllocator* placed, Relocator* relocator,
                     const PinnedBlocks* pins, MoveObserver* observer)
    : backing_(backing),
      books_(&backing->books()),
      windows_(windows),
      placed_(placed),
      relocator_(relocator),
      pins_(pins),
      observer_(observer) {}

absl::Status MoveBatch::Run(const Snapshot& snapshot,
                            absl::Span<const PlannedMove> moves, Kind kind,
                            Result* result) {
  Fill(snapshot, moves);
  if (relocations_.empty()) return absl::OkStatus();
  if (kind.is_declared) return RunDeclared(kind, result);
  if (kind.is_planned_ahead) {
    Kind unannounced = kind;
    unannounced.is_announced = false;
    CheckAll(ListSources(), unannounced, result);
    if (relocations_.empty()) return absl::OkStatus();
  }
  absl::Status status;
  if (kind.is_announced) status = AnnounceAndCheck(kind, result);
  if (status.ok()) {
    WriteThroughHosts();
    status = relocator_->Relocate(relocations_);
  }
  if (status.ok()) Publish(result);
  if (kind.is_announced) observer_->Conclude();
  return status;
}

void MoveBatch::Fill(const Snapshot& snapshot,
                     absl::Span<const PlannedMove> moves) {
  sources_.clear();
  relocations_.clear();
  for (size_t i = 0; i < moves.size(); ++i) {
    const SnapshotVg& vg = snapshot.vgs[moves[i].vg];
    if (i == 0 || moves[i].from != moves[i - 1].from) {
      Source source;
      source.from = snapshot.granules[moves[i].from].granule;
      source.begin = i;
      sources_.push_back(source);
    }
    sources_.back().end = i + 1;
    Relocation relocation;
    relocation.vg = vg.vg;
    relocation.to = snapshot.granules[moves[i].to].granule;
    relocation.extents = snapshot.ExtentsOf(vg);
    relocations_.push_back(relocation);
  }
}

void MoveBatch::WriteThroughHosts() {
  for (Relocation& relocation : relocations_) {
    relocation.through = books_->granule(relocation.to).first;
  }
}

void MoveBatch::Publish(Result* result) {
  for (const Source& source : sources_) {
    for (size_t i = source.begin; i < source.end; ++i) {
      const Relocation& done = relocations_[i];
      const VgRecord& record = books_->vg(done.vg);
      if (record.role == VgRole::kWindow) windows_->PrepareMove(record.owner);
      books_->Move(done.vg, done.to, done.extents.data(), done.extents.size());
      windows_->UnblockAll(source.from);
      if (placed_ != nullptr) placed_->CloseAllOn(done.to);
      result->quanta += QuantaOf(done.extents);
    }
    backing_->CacheIfUnmapped(source.from);
  }
  result->sources += sources_.size();
  result->moves += relocations_.size();
}

absl::Status MoveBatch::RunDeclared(Kind kind, Result* result) {
  // Others have gone on since the plan was made, and copies are written to
  // what was free then.
  CheckAll(ListSources(), kind, result);
  if (relocations_.empty()) return absl::OkStatus();
  std::vector<MovingSource> sources = ListSources();
  // What is mapped to a granule that is held stays so: no address and no
  // mapping is needed to write through.
  WriteThroughHosts();
  absl::Status status = relocator_->Prepare(relocations_);
  if (!status.ok()) return status;
  SetHeld(true);
  status = CopyUnlocked(kind, &sources);
  const absl::Time copied = absl::Now();
  SetHeld(false);
  if (status.ok()) {
    CheckAll(sources, kind, result);
    status = relocator_->Commit(relocations_);
  } else {
    relocator_->Abort(relocations_, status);
    // Hooks were asked all the same.
    result->vetoed_sources += static_cast<uint64_t>(
        std::count_if(sources.begin(), sources.end(),
                      [](const MovingSource& source) { return source.stays; }));
  }
  if (status.ok()) Publish(result);
  result->remap_duration = absl::Now() - copied;
  result->pause = observer_->Conclude();
  return status;
}

absl::Status MoveBatch::CopyUnlocked(Kind kind,
                                     std::vector<MovingSource>* sources) {
  return observer_->Copy(
      sources, kind.max_wait,
      [this](const std::vector<MovingSource>& announced) {
        std::vector<Relocation> wanted;
        for (size_t i = 0; i < sources_.size(); ++i) {
          if (announced[i].stays) continue;
          wanted.insert(wanted.end(),
                        relocations_.begin() + Signed(sources_[i].begin),
                        relocations_.begin() + Signed(sources_[i].end));
        }
        return relocator_->Copy(wanted);
      });
}

void MoveBatch::SetHeld(bool held) {
  if (held) {
    held_.clear();
    for (const Source& source : sources_) held_.push_back(source.from);
    for (const Relocation& move : relocations_) held_.push_back(move.to);
    std::sort(held_.begin(), held_.end());
    held_.erase(std::unique(held_.begin(), held_.end()), held_.end());
  }
  for (const GranuleId granule : held_) {
    books_->SetHeld(granule, held);
    if (held && placed_ != nullptr) placed_->CloseAllOn(granule);
    if (!held) windows_->UnblockAll(granule);
  }
}

std::vector<MovingSource> MoveBatch::ListSources() const {
  std::vector<MovingSource> sources(sources_.size());
  for (size_t i = 0; i < sources_.size(); ++i) {
    for (size_t n = sources_[i].begin; n < sources_[i].end; ++n) {
      sources[i].vgs.push_back(relocations_[n].vg);
    }
  }
  return sources;
}

absl::Status MoveBatch::AnnounceAndCheck(Kind kind, Result* result) {
  std::vector<MovingSource> announced = ListSources();
  const absl::Status status = observer_->Announce(&announced);
  if (status.ok()) CheckAll(announced, kind, result);
  return status;
}

void MoveBatch::CheckAll(const std::vector<MovingSource>& announced, Kind kind,
                         Result* result) {
  pinned_ = pins_->PinnedVgs();
  checked_sources_.clear();
  checked_.clear();
  // Those of an earlier check are what is compared with.
  std::swap(extents_, planned_extents_);
  extents_.clear();
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (announced[i].stays) {
      ++result->vetoed_sources;
    } else if (!Check(sources_[i], kind)) {
      ++result->changed_sources;
    }
  }
  std::swap(sources_, checked_sources_);
  std::swap(relocations_, checked_);
}

bool MoveBatch::Check(const Source& source, Kind kind) {
  const GranuleRecord& from = books_->granule(source.from);
  Source left;
  left.from = source.from;
  left.begin = checked_.size();
  uint64_t quanta = 0;
  bool is_right = books_->IsOwn(from) && !from.frozen && !from.is_host;
  for (size_t i = source.begin; i < source.end && is_right; ++i) {
    Relocation relocation = relocations_[i];
    const VgRecord& record = books_->vg(relocation.vg);
    // All of it was freed meanwhile: so much less to move.
    if (!MayMove(record) || record.granule != source.from) continue;
    std::vector<OffsetInterval> extents;
    is_right = CheckMove(relocation, source.from, kind, &extents);
    if (!is_right || extents.empty()) continue;
    quanta += QuantaOf(extents);
    // Their elements stay where they are when the list of lists grows.
    extents_.push_back(std::move(extents));
    relocation.extents = extents_.back();
    checked_.push_back(relocation);
  }
  // Something new on the source would keep it from becoming empty.
  if (kind.empties_sources && quanta != from.live_quanta) is_right = false;
  left.end = checked_.size();
  if (!is_right) {
    checked_.resize(left.begin);
    return false;
  }
  if (left.end > left.begin) checked_sources_.push_back(left);
  return true;
}

void MoveBatch::AppendLiveExtents(VgIndex vg,
                                  std::vector<OffsetInterval>* extents) const {
  const VgRecord& record = books_->vg(vg);
  switch (record.role) {
    case VgRole::kWindow:
      return windows_->AppendLiveExtents(record.owner, extents);
    case VgRole::kPlaced:
      return placed_->AppendLiveExtents(vg, extents);
    default:
      extents->push_back(record.window);
  }
}

bool MoveBatch::HasNews(VgIndex vg, Kind kind) const {
  if (kind.is_declared) return !observer_->IsQuiet(vg);
  return kind.is_announced && observer_->HasNews(vg);
}

bool MoveBatch::CheckMove(const Relocation& planned, GranuleId from, Kind kind,
                          std::vector<OffsetInterval>* extents) const {
  if (planned.to == from || HasNews(planned.vg, kind) ||
      std::binary_search(pinned_.begin(), pinned_.end(), planned.vg)) {
    return false;
  }
  AppendLiveExtents(planned.vg, extents);
  // Within what was planned they are clear of the other moves to this host.
  return AreWithin(*extents, planned.extents) &&
         CanTakeIn(planned.to, *extents);
}

bool MoveBatch::CanTakeIn(GranuleId host,
                          absl::Span<const OffsetInterval> extents) const {
  const GranuleRecord& record = books_->granule(host);
  if (!books_->IsOwn(record) || record.live_quanta == 0 || record.frozen ||
      record.is_host || record.occupancy.empty() ||
      books_->vg(record.first).role == VgRole::kInterior) {
    return false;
  }
  const auto taken =
      std::count_if(checked_.begin(), checked_.end(),
                    [host](const Relocation& move) { return move.to == host; });
  if (record.mappings + static_cast<uint64_t>(taken) >=
      books_->max_mappings()) {
    return false;
  }
  for (const OffsetInterval& extent : extents) {
    if (record.occupancy.AnyIn(extent)) return false;
  }
  return true;
}

}  // namespace firn
