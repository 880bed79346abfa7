// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/state.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/fragmentation_identities.h"

namespace firn::testing::property {
namespace {

constexpr uint64_t kLeastAlignment = 512;

std::unique_ptr<CpuDriver> MakeDriver(const Setting& setting,
                                      std::string* failure) {
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(setting.DriverOptions());
  if (!driver.ok()) {
    *failure = driver.status().ToString();
    return nullptr;
  }
  return *std::move(driver);
}

}  // namespace

State::State(const Setting& setting, const Wrap& wrap)
    : setting_(setting),
      patterns_(setting.capacity_bytes()),
      cpu_(MakeDriver(setting, &failure_)),
      wrapped_(wrap ? wrap(cpu_.get()) : nullptr),
      ledger_(wrapped_ != nullptr ? wrapped_.get() : cpu_.get()),
      faults_(&ledger_),
      work_(cpu_.get(), &damage_),
      hooks_(&shadow_, &pins_, &idle_,
             setting.placement == PlacementKind::kFirn &&
                 setting.host_granules == 0),
      graphs_(&uses_) {
  if (!failure_.empty()) return;
  PoolOptions options = setting.Options();
  options.driver = std::shared_ptr<Driver>(&faults_, [](Driver*) {});
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
  if (pool.ok()) {
    pool_ = *std::move(pool);
  } else {
    Fail(pool.status().ToString());
  }
  faults_.Reset();
}

State::~State() {
  scopes_.clear();
  pool_.reset();
}

LiveBlock* State::block(uint32_t number) {
  std::vector<LiveBlock>& blocks = shadow_.blocks();
  return blocks.empty() ? nullptr : &blocks[number % blocks.size()];
}

size_t State::IndexOf(const LiveBlock& block) const {
  return static_cast<size_t>(&block - shadow_.blocks().data());
}

void State::Fail(absl::string_view what) {
  if (!failure_.empty()) return;
  failure_ = std::string(what);
  // What is wrong with a lost device, the driver says best.
  if (cpu_ != nullptr && !cpu_->loss().empty()) {
    absl::StrAppend(&failure_, "; ", cpu_->last_report());
  }
}

void State::ExpectUnchanged(absl::string_view what, const PoolStats& before) {
  const std::string change = Difference(before, pool_->GetStats());
  Expect(change.empty(), absl::StrCat(what, " changed the pool: ", change));
}

void State::FailCall(uint32_t calls_before, DriverResult result) {
  faults_.Reset();
  faults_.FailNth(calls_before, result);
  is_fault_ordered_ = true;
  is_fault_new_ = true;
}

bool State::IsOfGateInDoubt(const absl::Status& status) const {
  return is_gate_in_doubt_ &&
         absl::StrContains(status.message(), "the launch gate was not closed");
}

bool State::AddToShadow(void* ptr, uint64_t bytes,
                        const AllocateOptions& options) {
  const uint64_t alignment = std::max(kLeastAlignment, options.alignment_bytes);
  Expect(reinterpret_cast<uintptr_t>(ptr) % alignment == 0,
         "Allocate: the address is not aligned");
  LiveBlock block;
  block.content.ptr = ptr;
  block.content.bytes = bytes;
  block.content.seed = shadow_.NextSeed();
  block.stream = options.stream;
  block.tag = options.tag;
  block.domain = options.domain;
  block.memory_class = options.memory_class;
  patterns_.Set(block.content.seed, static_cast<uint32_t>(block.domain));
  const absl::StatusOr<uint64_t> generation = pool_->Generation(ptr);
  Expect(generation.status());
  if (!generation.ok()) return false;
  block.generation = *generation;
  const absl::Status added = shadow_.Add(block);
  Expect(added);
  if (!added.ok()) return false;
  for (Account* const account : accounts_) account->Added(block);
  if (block.tag != Tag::kUntagged) ++counts_.tagged_allocations;
  if (block.domain != DomainId::kDefault) ++counts_.domain_allocations;
  if (block.memory_class != MemoryClass::kMovable) ++counts_.class_allocations;
  return true;
}

void State::Adopt(void* ptr, uint64_t bytes, const AllocateOptions& options) {
  if (!AddToShadow(ptr, bytes, options)) return;
  const std::unique_ptr<LaunchScope> scope =
      ScopeFor(options.stream, /*wanted=*/false);
  const FilledBlock content = shadow_.Find(ptr)->content;
  const bool is_zero = options.memory_class == MemoryClass::kExportable;
  if (setting_.storage == CpuStorage::kReal &&
      (domains_.are_used() || counts_.exports > 0 || is_zero)) {
    const auto owner = static_cast<uint32_t>(options.domain);
    Expect(work_.Look(
        content,
        [this, content, owner, is_zero] {
          patterns_.CheckFresh(content, owner, is_zero);
        },
        options.stream));
  }
  Expect(work_.Fill(content, options.stream));
}

void State::NoteExport(LiveBlock* block) {
  block->is_exported = true;
  patterns_.Set(block->content.seed, PatternOwners::kNobody);
  ++counts_.exports;
}

void State::KeepExport(ExportedBlock exported) {
  exported_ = std::move(exported);
}

bool State::IsCovered(StreamHandle stream) const {
  for (const OpenedScope& scope : scopes_) {
    if (scope.streams == 0) return true;
    for (uint32_t i = 0; i < work_.stream_count(); ++i) {
      if ((scope.streams >> i & 1) != 0 && work_.stream(i) == stream) {
        return true;
      }
    }
  }
  return false;
}

std::unique_ptr<LaunchScope> State::ScopeFor(StreamHandle stream, bool wanted) {
  if (IsCovered(stream)) return nullptr;
  if ((wanted || setting_.scoped) && setting_.may_use_scopes()) {
    return absl::make_unique<LaunchScope>(*pool_, stream);
  }
  has_unscoped_work_ = true;
  return nullptr;
}

void State::OrderRecorded(const LiveBlock& block, StreamHandle stream,
                          bool all) {
  const RecordedUses* const uses = uses_.Find(block.content.ptr);
  if (uses == nullptr || !(all || uses->have_written)) return;
  for (const StreamHandle other : uses->streams) {
    Expect(work_.Order(other, stream));
  }
}

void State::Declare(LiveBlock* block, StreamHandle stream, bool read_only,
                    bool spillable) {
  Expect(work_.Order(block->stream, stream));
  block->stream = stream;
  const absl::Status status =
      read_only   ? pool_->MarkReadOnly(block->content.ptr, stream)
      : spillable ? pool_->AllowSpill(block->content.ptr, stream)
                  : pool_->MarkIdle(block->content.ptr, stream);
  const bool is_refused = graphs_.Owns(*block);
  if (status.ok()) idle_.Declare(*block, read_only);
  Expect(was_faulted() ||
             (is_refused ? absl::IsFailedPrecondition(status) : status.ok()),
         absl::StrCat(read_only ? "MarkReadOnly: " : "MarkIdle: ",
                      status.ToString()));
}

bool State::MarkActive(const LiveBlock& block) {
  const bool may_be_spilled = pool_->GetUsage().spilled_bytes > 0;
  const void* const ptr = block.content.ptr;
  const absl::Status status = pool_->MarkActive(ptr);
  // Hooks that were called on the way back may have freed it, or others.
  const LiveBlock* const left = shadow_.Find(ptr);
  if (!status.ok()) {
    Expect(may_be_spilled &&
               (was_faulted() || absl::IsResourceExhausted(status) ||
                absl::IsFailedPrecondition(status) || left == nullptr),
           absl::StrCat("MarkActive: ", status.ToString()));
    return false;
  }
  if (left != nullptr) idle_.Activate(*left);
  return left != nullptr;
}

void State::Use(LiveBlock* block, StreamHandle stream, bool write,
                bool in_scope) {
  const void* const ptr = block->content.ptr;
  if ((write ? idle_.IsDeclared(ptr) : idle_.IsIdle(ptr)) &&
      !MarkActive(*block)) {
    return;
  }
  block = shadow_.Find(ptr);
  UseActive(block, stream, write, in_scope || idle_.IsReadOnly(ptr));
}

void State::UseActive(LiveBlock* block, StreamHandle stream, bool write,
                      bool in_scope) {
  const std::unique_ptr<LaunchScope> scope = ScopeFor(stream, in_scope);
  Expect(work_.Order(block->stream, stream));
  OrderRecorded(*block, stream, /*all=*/write);
  block->stream = stream;
  if (!write) return Expect(work_.Check(block->content, stream));
  uses_.Forget(block->content.ptr);
  const uint64_t next_seed = shadow_.NextSeed();
  Expect(work_.CheckAndFill(block->content, next_seed, stream));
  block->content.seed = next_seed;
  patterns_.Set(next_seed, block->is_exported
                               ? PatternOwners::kNobody
                               : static_cast<uint32_t>(block->domain));
}

void State::RecordUse(LiveBlock* block, StreamHandle stream, bool write,
                      bool in_scope, uint32_t microseconds) {
  const StreamHandle last = block->stream;
  Expect(work_.Sleep(stream, microseconds));
  // No pass is about to move it; RecordUse itself makes it active if it is
  // idle.
  const bool is_read_only = idle_.IsReadOnly(block->content.ptr);
  const void* const ptr = block->content.ptr;
  if (is_read_only && write && !MarkActive(*block)) return;
  block = shadow_.Find(ptr);
  UseActive(block, stream, write, in_scope || is_read_only);
  const absl::Status status = pool_->RecordUse(block->content.ptr, stream);
  if (!status.ok()) {
    Expect(was_faulted(), absl::StrCat("RecordUse: ", status.ToString()));
    if (is_read_only) {
      MarkActive(*block);
    } else {
      idle_.Activate(*block);
    }
    return;
  }
  if (!is_read_only) idle_.Activate(*block);
  block->stream = last;
  uses_.Add(block->content.ptr, stream, write);
  ++counts_.uses_recorded;
}

void State::CheckRefusedFree(const LiveBlock& block,
                             const absl::Status& status) {
  shadow_.CountRefusedFree();
  const std::string reason = pins_.ReasonOf(block.content.ptr);
  if (reason.empty()) {
    return Expect(was_faulted(), absl::StrCat("Free: ", status.ToString()));
  }
  ++counts_.pinned_frees;
  Expect(absl::IsFailedPrecondition(status) &&
             absl::StrContains(status.message(), reason),
         absl::StrCat("Free of a block pinned for \"", reason,
                      "\": ", status.ToString()));
}

void State::Free(LiveBlock* block, StreamHandle stream) {
  const void* const ptr = block->content.ptr;
  if (uses_.Find(ptr) == nullptr && !idle_.IsDeclared(ptr)) {
    // Late writes: whoever got the memory before they are done would see them.
    Use(block, stream, /*write=*/true, /*in_scope=*/false);
  } else {
    // Recorded uses would see those of whoever got the memory before they are
    // done. What is declared is freed as it is.
    Expect(work_.Order(block->stream, stream));
    block->stream = stream;
  }
  FreeAsItIs(block, stream);
}

bool State::FreeAsItIs(LiveBlock* block, StreamHandle stream) {
  const absl::Status status = pool_->Free(block->content.ptr, stream);
  if (!status.ok()) {
    CheckRefusedFree(*block, status);
    return false;
  }
  Expect(!pins_.IsPinned(block->content.ptr), "Free took a pinned block");
  for (Account* const account : accounts_) account->Removed(*block);
  shadow_.Remove(IndexOf(*block));
  return true;
}

void State::AllocateInHook(uint64_t bytes) {
  const absl::StatusOr<void*> ptr = pool_->Allocate(bytes);
  if (!ptr.ok()) {
    shadow_.CountFailedAllocation();
    return Expect(
        absl::IsResourceExhausted(ptr.status()) || was_faulted(),
        absl::StrCat("Allocate in a move hook: ", ptr.status().ToString()));
  }
  if (!AddToShadow(*ptr, bytes, AllocateOptions())) return;
  Expect(work_.Fill(shadow_.Find(*ptr)->content, nullptr));
  Expect(work_.Synchronize(nullptr));
}

void State::DestroyStream(uint32_t number, bool release_first) {
  const StreamHandle gone = work_.stream(number);
  if (gone == nullptr || is_inside()) return;
  if (release_first) {
    const absl::Status status = pool_->ReleaseStream(gone);
    Expect(status.ok() || was_faulted(),
           absl::StrCat("ReleaseStream: ", status.ToString()));
  }
  Expect(work_.DestroyStream(number));
  for (LiveBlock& block : shadow_.blocks()) {
    if (block.stream == gone) block.stream = nullptr;
  }
  for (Account* const account : accounts_) account->StreamGone(gone);
}

void State::OpenScope(uint32_t streams) {
  constexpr size_t kMostScopes = 3;
  if (!setting_.may_use_scopes() || scopes_.size() == kMostScopes) return;
  OpenedScope opened;
  opened.streams = streams % (1u << work_.stream_count());
  std::vector<StreamHandle> handles;
  for (uint32_t i = 0; i < work_.stream_count(); ++i) {
    if ((opened.streams >> i & 1) != 0) handles.push_back(work_.stream(i));
  }
  opened.scope = absl::make_unique<LaunchScope>(
      *pool_, absl::Span<const StreamHandle>(handles));
  scopes_.push_back(std::move(opened));
}

void State::CloseScope(uint32_t number) {
  if (scopes_.empty()) return;
  const size_t index = number % scopes_.size();
  scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(index));
}

void State::SynchronizeUnscoped() {
  if (!has_unscoped_work_) return;
  Expect(work_.SynchronizeAll());
  has_unscoped_work_ = false;
}

void State::CheckContents() {
  if (setting_.storage == CpuStorage::kGhost) {
    Expect(work_.SynchronizeAll());
    Expect(work_.Reach(shadow_.Contents()));
    Expect(work_.SynchronizeAll());
    return;
  }
  Expect(work_.SynchronizeAll());
  for (const LiveBlock& block : shadow_.blocks()) damage_.Check(block.content);
}

void State::CheckGenerations(bool may_have_moved) {
  bool has_moved = false;
  for (LiveBlock& block : shadow_.blocks()) {
    const absl::StatusOr<uint64_t> now = pool_->Generation(block.content.ptr);
    if (!now.ok()) return Fail(now.status().ToString());
    Expect(*now >= block.generation, "I8: a generation went back");
    if (*now != block.generation) {
      has_moved = true;
      Expect(!pins_.IsPinned(block.content.ptr),
             "I8: the generation of a pinned block grew");
      Expect(block.memory_class == MemoryClass::kMovable,
             "I8: the generation of a block grew whose class does not move");
      Expect(hooks_.empty(), "a block moved, and no hook was told");
    }
    block.generation = *now;
  }
  Expect(may_have_moved || !has_moved,
         "a generation grew, though nothing was moved");
}

void State::Count(const PoolStats& stats) {
  ++counts_.operations;
  counts_.moves_told = hooks_.moves_told();
  counts_.vetoes = hooks_.vetoes();
  counts_.idle_marks = idle_.declarations();
  counts_.gated_idle_passes = idle_.gated_passes();
  counts_.idle_passes = idle_.passes();
  counts_.idle_moves = idle_.moves();
  counts_.idle_rescued = idle_.rescued();
  counts_.allocations = stats.allocations;
  counts_.failed_allocations = stats.failed_allocations;
  counts_.refused_frees = stats.refused_frees;
  counts_.passes = stats.compaction_passes;
  counts_.granules_moved = stats.granules_moved;
  counts_.granules_spilled = stats.granules_spilled;
  counts_.granules_returned = stats.granules_returned;
  counts_.handles_released = stats.handles_released;
  counts_.scope_tokens = stats.scope_tokens;
  counts_.graph_pool_bytes += stats.graph_pool_bytes;
  counts_.graph_reuses = graphs_.reuses();
  if (stats.limit_bytes < stats.capacity_bytes &&
      stats.held_bytes >= stats.limit_bytes) {
    ++counts_.limited;
  }
  if (stats.pending_free_bytes > 0) ++counts_.pending_seen;
  if (stats.used_bytes == stats.capacity_bytes) ++counts_.exhausted_seen;
}

void State::AfterOperation(bool thorough) {
  if (!failure_.empty()) return;
  if (setting_.settled) Expect(work_.SynchronizeAll());
  const bool was_faulted_lately = was_faulted();
  if (is_fault_ordered_ && !is_fault_new_) {
    if (was_faulted_lately) {
      ++counts_.faults;
      is_gate_in_doubt_ = true;
      thorough = true;
    }
    faults_.Reset();
    is_fault_ordered_ = false;
  }
  is_fault_new_ = false;
  const PoolStats stats = pool_->GetStats();
  Expect(shadow_.CheckFigures(stats));
  if (hooks_.has_meddled()) ++counts_.meddled_passes;
  for (Account* const account : accounts_) {
    Expect(account->AfterOperation(*pool_, stats, was_faulted_lately));
  }
  Count(stats);
  const PoolUsage usage = pool_->GetUsage();
  Expect(usage.live_bytes == stats.live_bytes &&
             usage.used_bytes == stats.used_bytes &&
             usage.spilled_bytes == stats.spilled_bytes &&
             usage.held_bytes == stats.held_bytes &&
             usage.limit_bytes == stats.limit_bytes &&
             usage.mapped_vgs == stats.mapped_vgs &&
             usage.failed_allocations == stats.failed_allocations &&
             usage.compaction_passes == stats.compaction_passes &&
             usage.granules_moved == stats.granules_moved,
         "GetUsage and GetStats differ");
  const FragmentationStats fragmentation = pool_->GetFragmentation();
  Expect(FragmentationIdentities(fragmentation).With(stats).status());
  Expect(
      fragmentation.lost_bytes == stats.host_used_bytes - stats.spilled_bytes,
      "GetFragmentation: something is lost");
  const uint64_t granules_moved =
      stats.granules_moved + stats.granules_spilled + stats.granules_returned;
  const bool has_moved = granules_moved != granules_moved_;
  granules_moved_ = granules_moved;
  if (has_moved || thorough) {
    const bool is_fault_waiting = is_fault_ordered_;
    // Reads of the driver's own view are no calls of an operation.
    if (!is_fault_waiting) Expect(pool_->CheckInvariants());
    CheckGenerations(has_moved);
    CheckContents();
    if (domains_.are_used() || counts_.class_allocations > 0) {
      Expect(DomainAccount::CheckGranules(shadow_.blocks(),
                                          setting_.granule_bytes, cpu_.get()));
    }
  }
  if (!cpu_->loss().empty()) Fail("the device is lost");
  const std::string damage = damage_.text();
  if (!damage.empty()) Fail(damage);
  const std::string leak = patterns_.text();
  if (!leak.empty()) Fail(leak);
}

void State::Drain() {
  if (!failure_.empty()) return;
  faults_.Reset();
  scopes_.clear();
  for (Account* const account : accounts_) account->LetGo();
  exported_.Close();
  while (!shadow_.blocks().empty() && failure_.empty()) {
    LiveBlock& last = shadow_.blocks().back();
    Free(&last, last.stream);
  }
  Expect(work_.SynchronizeAll());
  const absl::StatusOr<uint64_t> released = pool_->Trim();
  if (!released.ok()) return Fail(released.status().ToString());
  AfterOperation(/*thorough=*/true);
  if (!failure_.empty()) return;
  const PoolStats stats = pool_->GetStats();
  Expect(stats.live_bytes == 0 && stats.used_bytes == 0 &&
             stats.held_bytes == 0 && stats.host_held_bytes == 0 &&
             stats.pending_free_bytes == 0 && stats.mapped_vgs == 0,
         absl::StrCat("the pool is not empty in the end:\n", stats.ToString()));
  pool_.reset();
  Expect(ledger_.empty(),
         absl::StrCat("the pool left behind: ", ledger_.Describe()));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const DriverResult result = cpu_->MemGetInfo(&free_bytes, &total_bytes);
  Expect(result == DriverResult::kSuccess && free_bytes == total_bytes,
         absl::StrCat("the device has ", total_bytes - free_bytes,
                      " bytes less than before"));
}

}  // namespace firn::testing::property
