// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/block_operations.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/placement/size_classes.h"
#include "firn/vmm/units.h"

namespace firn::testing::property {
namespace {

constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;

// As what the request must be refused before anything is tried; kOk: it must
// not.
absl::StatusCode RefusalOf(const Allocate& request, DomainId domain,
                           State& state) {
  const uint64_t alignment = request.alignment_bytes;
  if (request.bytes == 0 || alignment == 0 ||
      (alignment & (alignment - 1)) != 0 || alignment > kMaxAlignment) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (request.memory_class == MemoryClass::kExportable) {
    if (!state.setting().exporting) return absl::StatusCode::kInvalidArgument;
    if (state.is_inside()) return absl::StatusCode::kFailedPrecondition;
  }
  return state.domains().IsOpen(domain) ? absl::StatusCode::kOk
                                        : absl::StatusCode::kInvalidArgument;
}

// Whether there is room that no live block keeps from being used: granules
// that hold nothing, and addresses side by side. `stats` are of after the
// refusal: what was freed has been waited for.
bool MustFit(const Allocate& request, DomainId domain, State& state,
             const PoolStats& stats) {
  const uint64_t granule = stats.granule_bytes;
  if (request.bytes > stats.capacity_bytes ||
      request.alignment_bytes > granule) {
    return false;
  }
  // Structures want more than the request.
  if (state.setting().placement != PlacementKind::kFirn) return false;
  // Nothing is waited for; what was exported fills the device.
  if (state.graphs().any_open() || state.has_export()) return false;
  const uint64_t wanted = (request.bytes + granule - 1) / granule;
  if (stats.used_bytes > stats.limit_bytes ||
      (stats.limit_bytes - stats.used_bytes) / granule < wanted) {
    return false;
  }
  const uint64_t domain_limit = state.domains().HardLimitOf(domain);
  if (domain_limit < stats.capacity_bytes) {
    for (const DomainStats& each : state.pool().GetDomainStats()) {
      if (each.id == domain &&
          each.used_bytes + wanted * granule > domain_limit) {
        return false;
      }
    }
  }
  const Setting& setting = state.setting();
  const uint64_t vgs =
      uint64_t{setting.capacity_granules} * setting.address_space_factor;
  // Idle mappings have been taken back.
  const uint64_t taken = stats.live_vgs;
  if (setting.max_mapped_vgs != 0 && taken + wanted > setting.max_mapped_vgs) {
    return false;
  }
  // However they lie, they leave a gap as long as this.
  return (vgs - taken) / (taken + 1) >= wanted;
}

}  // namespace

uint64_t DrawBytes(Choices& choices, const Setting& setting) {
  const uint64_t granule = setting.granule_bytes;
  const uint64_t capacity = setting.capacity_bytes();
  // One byte less, as much, or one more.
  const auto around = [&](uint64_t bytes) {
    return bytes + choices.Below(3) - 1;
  };
  const uint64_t kind = choices.Below(64);
  if (kind < 28) {  // log-uniform, below half a granule
    const uint64_t limit = granule / 2 >> choices.Below(9);
    return 1 + choices.Below(std::max<uint64_t>(limit, 512));
  }
  if (kind < 44) {  // edges of classes
    const SizeClasses classes(static_cast<uint32_t>(granule / kQuantumBytes));
    return around(
        QuantaToBytes(classes.slot_quanta(choices.Index(classes.count()))));
  }
  if (kind < 52) return around(granule >> choices.Below(7));
  if (kind < 58) return around(granule * choices.Between(1, 4));
  if (kind < 61) {  // log-uniform, up to the capacity
    return 1 + choices.Below(
                   std::max<uint64_t>(capacity >> choices.Below(6), granule));
  }
  if (kind < 63) return around(capacity);
  return choices.OneIn(2) ? 0 : ~uint64_t{0} >> choices.Below(40);
}

uint64_t DrawAlignment(Choices& choices, const Setting& setting) {
  const uint64_t kind = choices.Below(32);
  if (kind < 24) return 512;
  if (kind < 30) return setting.granule_bytes >> choices.Below(8);
  if (kind < 31) return uint64_t{1} << choices.Below(32);
  return choices.Below(5000);
}

absl::string_view NameOf(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kMovable:
      return "MemoryClass::kMovable";
    case MemoryClass::kPinned:
      return "MemoryClass::kPinned";
    case MemoryClass::kExportable:
      return "MemoryClass::kExportable";
  }
  return "";
}

absl::string_view NameOf(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::kUnknown:
      return "Lifetime::kUnknown";
    case Lifetime::kShort:
      return "Lifetime::kShort";
    case Lifetime::kLong:
      return "Lifetime::kLong";
  }
  return "";
}

Allocate Allocate::Draw(Choices& choices, const Setting& setting) {
  Allocate request;
  request.bytes = DrawBytes(choices, setting);
  request.alignment_bytes = DrawAlignment(choices, setting);
  request.stream = choices.Index(DeviceWork::kMostStreams);
  if (choices.OneIn(4)) request.tag = choices.Index(8);
  if (choices.OneIn(2)) request.domain = choices.Index(8);
  if (choices.OneIn(12)) request.memory_class = MemoryClass::kPinned;
  if (choices.OneIn(setting.exporting ? 8 : 200)) {
    request.memory_class = MemoryClass::kExportable;
  }
  if (choices.OneIn(8)) {
    request.lifetime = static_cast<Lifetime>(choices.Below(3));
  }
  return request;
}

bool Allocate::TryPerform(State& state) const {
  Pool& pool = state.pool();
  const PoolStats before = pool.GetStats();
  AllocateOptions options;
  options.alignment_bytes = alignment_bytes;
  options.stream = state.work().stream(stream);
  options.tag = state.tags().Pick(tag);
  options.domain = state.domains().Pick(domain);
  options.memory_class = memory_class;
  options.lifetime = lifetime;
  const absl::StatusCode refusal = RefusalOf(*this, options.domain, state);
  const bool is_valid = refusal == absl::StatusCode::kOk;
  const absl::StatusOr<void*> ptr = pool.Allocate(bytes, options);
  if (ptr.ok()) {
    state.Expect(is_valid, "Allocate took arguments that it must refuse");
    state.Adopt(*ptr, bytes, options);
    return true;
  }
  const absl::Status& status = ptr.status();
  if (!is_valid) {
    state.Expect(status.code() == refusal, status.ToString());
    state.ExpectUnchanged("an invalid Allocate", before);
    return false;
  }
  state.shadow().CountFailedAllocation();
  state.domains().CountFailedAllocation(options.domain);
  state.Expect(absl::IsResourceExhausted(status) || state.was_faulted() ||
                   state.IsOfGateInDoubt(status),
               status.ToString());
  // What hooks do meanwhile makes figures of its own.
  if (state.hooks().has_meddled()) return false;
  const PoolStats after = pool.GetStats();
  // What was created in vain is kept if the driver does not take it back.
  const uint64_t kept = state.was_faulted() ? after.cached_bytes : 0;
  // What would have to be zeroed, and cannot be now, may stay mapped for later.
  const bool is_left_unzeroed =
      (state.is_inside() || state.graphs().any_open() || state.was_faulted()) &&
      (state.domains().are_used() || memory_class == MemoryClass::kExportable);
  state.Expect(
      after.used_bytes <= before.used_bytes &&
          (is_left_unzeroed || (after.held_bytes <= before.held_bytes + kept &&
                                after.mapped_vgs <= before.mapped_vgs)),
      absl::StrCat("a failed Allocate took memory: ",
                   Difference(before, after)));
  if (!state.was_faulted() && !state.is_inside()) {
    state.Expect(!MustFit(*this, options.domain, state, after),
                 absl::StrCat("Allocate failed, though there is room: ",
                              status.ToString(), "\n", after.ToString()));
  }
  return false;
}

void FreeMost::Perform(State& state) const {
  std::vector<void*> freed;
  const size_t some = std::min<size_t>(count, state.shadow().blocks().size());
  for (size_t i = 0; i < some; ++i) {
    if (i % stride == 0) continue;
    freed.push_back(state.block(first + static_cast<uint32_t>(i))->content.ptr);
  }
  for (void* const ptr : freed) {
    LiveBlock* const block = state.shadow().Find(ptr);
    state.Free(block, block->stream);
  }
}

absl::string_view NameOf(FreeWrongly::Mistake mistake) {
  switch (mistake) {
    case FreeWrongly::Mistake::kTwice:
      return "FreeWrongly::Mistake::kTwice";
    case FreeWrongly::Mistake::kInterior:
      return "FreeWrongly::Mistake::kInterior";
    case FreeWrongly::Mistake::kForeign:
      return "FreeWrongly::Mistake::kForeign";
    case FreeWrongly::Mistake::kNoStream:
      return "FreeWrongly::Mistake::kNoStream";
  }
  return "";
}

void FreeWrongly::Perform(State& state) const {
  int no_stream = 0;
  const LiveBlock* const live = state.block(block);
  void* ptr = &no_stream;
  StreamHandle stream = nullptr;
  switch (mistake) {
    case Mistake::kTwice: {
      const std::deque<void*>& freed = state.shadow().freed();
      if (freed.empty()) return;
      ptr = freed[block % freed.size()];
      if (state.shadow().Find(ptr) != nullptr) return;  // lives again
      break;
    }
    case Mistake::kInterior: {
      if (live == nullptr) return;
      const uint64_t bytes = live->content.bytes;
      if (bytes == 1) return;
      ptr = static_cast<char*>(live->content.ptr) + 1 +
            offset_bytes % (bytes - 1);
      if (offset_bytes > 0 && offset_bytes < bytes) {
        ptr = static_cast<char*>(live->content.ptr) + offset_bytes;
      }
      break;
    }
    case Mistake::kForeign:
      break;
    case Mistake::kNoStream:
      if (live == nullptr) return;
      ptr = live->content.ptr;
      if (state.pins().IsPinned(ptr)) return;  // another mistake
      stream = reinterpret_cast<StreamHandle>(&no_stream);
      break;
  }
  PoolStats before = state.pool().GetStats();
  const absl::Status status = state.pool().Free(ptr, stream);
  ++before.refused_frees;
  state.shadow().CountRefusedFree();
  state.Expect(
      absl::IsInvalidArgument(status) || (state.was_faulted() && !status.ok()),
      absl::StrCat("Free took an address or a stream that it must "
                   "refuse: ",
                   status.ToString()));
  state.ExpectUnchanged("a refused Free", before);
}

void AskGeneration::Perform(State& state) const {
  const LiveBlock* const asked = state.block(block);
  if (asked == nullptr) return;
  const absl::StatusOr<uint64_t> generation =
      state.pool().Generation(asked->content.ptr);
  state.Expect(generation.ok() && *generation == asked->generation,
               "Generation: not what it was, though nothing was moved");
  char* const within = static_cast<char*>(asked->content.ptr) +
                       offset_bytes % asked->content.bytes;
  if (within == asked->content.ptr) return;
  state.Expect(
      absl::IsInvalidArgument(state.pool().Generation(within).status()),
      "Generation: took an address inside a block");
}

}  // namespace firn::testing::property
