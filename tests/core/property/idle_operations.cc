// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/idle_operations.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/core/property/pool_operations.h"

namespace firn::testing::property {
namespace {

// nullptr: it would be the block itself.
void* Within(const LiveBlock& block, uint64_t offset_bytes) {
  const uint64_t offset = offset_bytes % block.content.bytes;
  return offset == 0 ? nullptr : static_cast<char*>(block.content.ptr) + offset;
}

uint32_t CountOf(uint32_t count, State& state) {
  return static_cast<uint32_t>(
      std::min<size_t>(count, state.shadow().blocks().size()));
}

}  // namespace

void MarkIdle::Perform(State& state) const {
  const LiveBlock* const first = state.block(block);
  if (first == nullptr) return;
  const PoolStats before = state.pool().GetStats();
  if (void* const within = Within(*first, offset_bytes)) {
    const absl::Status status = read_only
                                    ? state.pool().MarkReadOnly(within, nullptr)
                                    : state.pool().MarkIdle(within, nullptr);
    state.Expect(absl::IsInvalidArgument(status),
                 absl::StrCat("MarkIdle of an address inside a block: ",
                              status.ToString()));
  }
  int no_stream = 0;
  const absl::Status status = state.pool().MarkIdle(
      first->content.ptr, reinterpret_cast<StreamHandle>(&no_stream));
  state.Expect(!status.ok(), "MarkIdle took what is no stream");
  state.ExpectUnchanged("a refused MarkIdle", before);
  for (uint32_t i = 0; i < CountOf(count, state); ++i) {
    LiveBlock* const marked = state.block(block + i);
    state.Declare(marked,
                  elsewhere ? state.work().stream(stream) : marked->stream,
                  read_only, spillable);
  }
}

void MarkActive::Perform(State& state) const {
  const LiveBlock* const first = state.block(block);
  if (first == nullptr) return;
  if (void* const within = Within(*first, offset_bytes)) {
    const absl::Status status = state.pool().MarkActive(within);
    state.Expect(absl::IsInvalidArgument(status),
                 absl::StrCat("MarkActive of an address inside a block: ",
                              status.ToString()));
  }
  for (uint32_t i = 0; i < CountOf(count, state); ++i) {
    // Hooks may free what comes back.
    const LiveBlock* const marked = state.block(block + i);
    if (marked != nullptr) state.MarkActive(*marked);
  }
}

void GatherIdle::Perform(State& state) const {
  Allocate one;
  one.bytes = bytes;
  std::vector<void*> scattered;
  for (uint32_t i = 0; i < count && one.TryPerform(state); ++i) {
    scattered.push_back(state.shadow().blocks().back().content.ptr);
  }
  // Peaks are noted when somebody asks.
  state.pool().GetStats();
  for (size_t i = 0; i < scattered.size(); ++i) {
    LiveBlock* const block = state.shadow().Find(scattered[i]);
    if (i % stride != 0 && block != nullptr) state.Free(block, block->stream);
  }
  state.Expect(state.work().SynchronizeAll());
  Compact pass;
  pass.level = CompactionLevel::kDeclaredIdle;
  pass.declares_idle = true;
  pass.busy_every = busy_every;
  pass.max_pause_us = max_pause_us;
  pass.wanted_granules = wanted_granules;
  pass.read_only_every = read_only_every;
  pass.Perform(state);
}

void Oversubscribe::Perform(State& state) const {
  Allocate one;
  one.bytes = bytes;
  for (uint32_t i = 0; i < most && one.TryPerform(state); ++i) {
  }
  std::vector<LiveBlock>& blocks = state.shadow().blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (busy_every > 0 && i % busy_every == 0) continue;
    state.Declare(&blocks[i], blocks[i].stream, /*read_only=*/false,
                  /*spillable=*/true);
  }
  state.Expect(state.work().SynchronizeAll());
  for (uint32_t i = 0; i < more && one.TryPerform(state); ++i) {
  }
  // Peaks are noted when somebody asks.
  state.pool().GetStats();
  if (free_every > 0) {
    for (size_t i = 0; i < blocks.size(); i += free_every) {
      state.Free(&blocks[i], blocks[i].stream);
    }
  }
  for (size_t i = 0; i < blocks.size(); i += active_every) {
    state.MarkActive(blocks[i]);
  }
}

}  // namespace firn::testing::property
