// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/record_operations.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {

void RecordUse::Perform(State& state) const {
  LiveBlock* const used = state.block(block);
  if (used == nullptr) return;
  const DeviceWork& work = state.work();
  for (uint32_t i = 0; i <= more_streams; ++i) {
    // The last one is done first.
    state.RecordUse(used, work.stream(stream + i), write, in_scope,
                    microseconds / (i + 1));
  }
  if (!frees) return;
  Allocate next;
  next.bytes = used->content.bytes;
  while (work.stream(next.stream) != used->stream) ++next.stream;
  state.Free(used, used->stream);
  next.Perform(state);
}

void ReleaseStream::Perform(State& state) const {
  const PoolStats before = state.pool().GetStats();
  const absl::Status status =
      state.pool().ReleaseStream(state.work().stream(stream));
  state.Expect(status.ok() || state.was_faulted(),
               absl::StrCat("ReleaseStream: ", status.ToString()));
  const PoolStats after = state.pool().GetStats();
  state.Expect(
      after.parked_blocks <= before.parked_blocks &&
          after.used_bytes <= before.used_bytes &&
          after.held_bytes <= before.held_bytes,
      absl::StrCat("ReleaseStream took memory: ", Difference(before, after)));
}

void TakePin::Perform(State& state) const {
  const LiveBlock* const pinned = state.block(block);
  if (pinned == nullptr || state.pins().is_full()) return;
  Pool& pool = state.pool();
  const PoolStats before = pool.GetStats();
  void* const ptr = pinned->content.ptr;
  state.Expect(absl::IsInvalidArgument(pool.PinBlock(ptr, "").status()),
               "PinBlock: took no reason");
  void* const within =
      static_cast<char*>(ptr) + offset_bytes % pinned->content.bytes;
  if (within != ptr) {
    state.Expect(
        absl::IsInvalidArgument(pool.PinBlock(within, "inside").status()),
        "PinBlock: took an address inside a block");
  }
  state.ExpectUnchanged("a refused PinBlock", before);
  std::string why = absl::StrCat("reason ", reason);
  absl::StatusOr<Pin> pin = pool.PinBlock(ptr, why);
  if (absl::IsFailedPrecondition(pin.status()) && before.spilled_bytes > 0) {
    return state.ExpectUnchanged("a refused PinBlock of a spilled block",
                                 before);
  }
  if (!pin.ok()) return state.Expect(pin.status());
  state.Expect(pin->ptr() == ptr, "PinBlock: pinned another block");
  state.pins().Add(*std::move(pin), *pinned, std::move(why));
}

void FreePinned::Perform(State& state) const {
  LiveBlock* const pinned = state.shadow().Find(state.pins().BlockOf(pin));
  if (pinned == nullptr) return;
  PoolStats before = state.pool().GetStats();
  ++before.refused_frees;
  state.FreeAsItIs(pinned, state.work().stream(stream));
  state.ExpectUnchanged("the refused Free of a pinned block", before);
}

void RegisterTag::Perform(State& state) const {
  Pool& pool = state.pool();
  for (const absl::string_view no_name : {"", "untagged"}) {
    state.Expect(absl::IsInvalidArgument(pool.RegisterTag(no_name).status()),
                 "RegisterTag: took a name that it must refuse");
  }
  AllocateOptions options;
  options.tag = state.tags().Unknown();
  const PoolStats before = pool.GetStats();
  state.Expect(absl::IsInvalidArgument(pool.Allocate(512, options).status()),
               "Allocate: took a tag that is not registered");
  state.ExpectUnchanged("an Allocate with an unknown tag", before);
  const std::string text = absl::StrCat("tag ", name);
  const absl::StatusOr<Tag> tag = pool.RegisterTag(text);
  if (!tag.ok()) return state.Expect(tag.status());
  state.Expect(state.tags().Register(text, *tag));
}

void AskUsage::Perform(State& state) const {
  LiveBlock* const freed = frees_first ? state.block(block) : nullptr;
  if (freed != nullptr) state.Free(freed, freed->stream);
  const PoolUsage usage = state.pool().GetUsage();
  const PoolStats stats = state.pool().GetStats();
  state.Expect(usage.live_bytes == state.shadow().expected().live_bytes &&
                   usage.used_bytes >= stats.used_bytes &&
                   usage.used_bytes <= usage.held_bytes &&
                   usage.held_bytes == stats.held_bytes &&
                   usage.mapped_vgs == stats.mapped_vgs &&
                   usage.compaction_passes == stats.compaction_passes &&
                   usage.granules_moved == stats.granules_moved,
               absl::StrCat("GetUsage: ", usage.live_bytes, " bytes live, ",
                            usage.used_bytes, " used, ", usage.held_bytes,
                            " held, and then\n", stats.ToString()));
}

}  // namespace firn::testing::property
