// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on a pool as a whole, on streams and scopes, and on the driver
// beneath. See operation.h for what an operation is.

#ifndef FIRN_TESTS_CORE_PROPERTY_POOL_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_POOL_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/driver_types.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

absl::string_view NameOf(CompactionLevel level);
absl::string_view NameOf(DriverResult result);

struct Compact {
  static constexpr absl::string_view kName = "Compact";
  static constexpr uint32_t kWeights[] = {3, 14, 10};

  CompactionLevel level = CompactionLevel::kCallerPromises;
  uint64_t max_bytes = 0;
  uint64_t max_moves = 0;
  uint64_t wanted_granules = 0;
  uint32_t max_pause_us = 0;  // 0: no limit
  // Before a pass for declared memory all blocks are declared idle, but for
  // every so-manieth (0: for none).
  bool declares_idle = false;
  uint32_t busy_every = 0;
  bool dry_run = false;
  // The pass may give up at once, or stop after its first batch.
  bool impatient = false;
  bool no_time = false;
  // Likewise of those that are declared so many are declared read-only.
  uint32_t read_only_every = 0;

  static Compact Draw(Choices& choices, const Setting& setting);
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("level", level);
    visit("max_bytes", max_bytes);
    visit("max_moves", max_moves);
    visit("wanted_granules", wanted_granules);
    visit("max_pause_us", max_pause_us);
    visit("declares_idle", declares_idle);
    visit("busy_every", busy_every);
    visit("dry_run", dry_run);
    visit("impatient", impatient);
    visit("no_time", no_time);
    visit("read_only_every", read_only_every);
  }
};

struct Trim {
  static constexpr absl::string_view kName = "Trim";
  static constexpr uint32_t kWeights[] = {2, 12, 6};

  uint64_t keep_bytes = 0;

  static Trim Draw(Choices& choices, const Setting& setting) {
    return {choices.OneIn(2) ? 0 : choices.Below(setting.capacity_bytes())};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("keep_bytes", keep_bytes);
  }
};

struct PrintStats {
  static constexpr absl::string_view kName = "PrintStats";
  static constexpr uint32_t kWeights[] = {2, 2, 2};

  static PrintStats Draw(Choices& /*choices*/, const Setting& /*setting*/) {
    return {};
  }
  void Perform(State& state) const {
    state.Expect(!state.pool().GetStats().ToString().empty(),
                 "PoolStats::ToString: empty");
  }
  template <typename Visitor>
  void Fields(Visitor& /*visit*/) const {}
};

// Keeps a stream busy.
struct Delay {
  static constexpr absl::string_view kName = "Delay";
  static constexpr uint32_t kWeights[] = {20, 20, 20};

  uint32_t stream = 0;
  uint32_t microseconds = 0;

  static Delay Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(DeviceWork::kMostStreams), choices.Index(100)};
  }
  void Perform(State& state) const {
    DeviceWork& work = state.work();
    state.Expect(work.Sleep(work.stream(stream), microseconds));
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("stream", stream);
    visit("microseconds", microseconds);
  }
};

struct Synchronize {
  static constexpr absl::string_view kName = "Synchronize";
  static constexpr uint32_t kWeights[] = {10, 10, 10};

  uint32_t stream = 0;

  static Synchronize Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(DeviceWork::kMostStreams)};
  }
  void Perform(State& state) const {
    DeviceWork& work = state.work();
    state.Expect(work.Synchronize(work.stream(stream)));
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("stream", stream);
  }
};

struct CreateStream {
  static constexpr absl::string_view kName = "CreateStream";
  static constexpr uint32_t kWeights[] = {6, 6, 6};

  bool non_blocking = false;

  static CreateStream Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.OneIn(2)};
  }
  void Perform(State& state) const {
    state.Expect(state.work().CreateStream(non_blocking));
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("non_blocking", non_blocking);
  }
};

// Blocks used there last go on living; what was freed there is still in use.
struct DestroyStream {
  static constexpr absl::string_view kName = "DestroyStream";
  static constexpr uint32_t kWeights[] = {4, 4, 4};

  uint32_t stream = 0;
  // The pool is told.
  bool release_first = false;

  static DestroyStream Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(DeviceWork::kMostStreams), choices.OneIn(2)};
  }
  void Perform(State& state) const {
    state.DestroyStream(stream, release_first);
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("stream", stream);
    visit("release_first", release_first);
  }
};

struct OpenScope {
  static constexpr absl::string_view kName = "OpenScope";
  static constexpr uint32_t kWeights[] = {6, 6, 6};

  // Bits by number; 0 names none.
  uint32_t streams = 0;

  static OpenScope Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(1u << DeviceWork::kMostStreams)};
  }
  void Perform(State& state) const { state.OpenScope(streams); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("streams", streams);
  }
};

struct CloseScope {
  static constexpr absl::string_view kName = "CloseScope";
  static constexpr uint32_t kWeights[] = {24, 24, 24};

  uint32_t scope = 0;

  static CloseScope Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(4)};
  }
  void Perform(State& state) const { state.CloseScope(scope); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("scope", scope);
  }
};

// A driver call of the next operation fails, if it makes so many.
struct FailCall {
  static constexpr absl::string_view kName = "FailCall";
  static constexpr uint32_t kWeights[] = {20, 20, 20};

  uint32_t calls_before = 0;
  DriverResult result = DriverResult::kUnknown;

  static FailCall Draw(Choices& choices, const Setting& /*setting*/) {
    return {
        choices.Index(1u << choices.Index(7)),
        choices.OneIn(2) ? DriverResult::kOutOfMemory : DriverResult::kUnknown};
  }
  void Perform(State& state) const { state.FailCall(calls_before, result); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("calls_before", calls_before);
    visit("result", result);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_POOL_OPERATIONS_H_
