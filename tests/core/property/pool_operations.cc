// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/pool_operations.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/core/property/record_operations.h"

namespace firn::testing::property {
namespace {

// However slow the machine is.
constexpr absl::Duration kLongestWait = absl::Minutes(2);

CompactOptions OptionsOf(const Compact& pass) {
  CompactOptions options;
  options.level = pass.level;
  options.max_wait = pass.impatient ? absl::ZeroDuration() : kLongestWait;
  options.max_bytes = pass.max_bytes;
  options.max_moves = pass.max_moves;
  if (pass.no_time) options.max_duration = absl::ZeroDuration();
  options.wanted_granules = pass.wanted_granules;
  if (pass.max_pause_us > 0) {
    options.max_pause = absl::Microseconds(pass.max_pause_us);
  }
  options.dry_run = pass.dry_run;
  return options;
}

// Declares idle what the pass wants to be.
void DeclareIdle(const Compact& pass, State& state) {
  // What threads keep of freed memory may be in use again at any time.
  for (uint32_t i = 0; i < state.work().stream_count(); ++i) {
    ReleaseStream{.stream = i}.Perform(state);
  }
  std::vector<LiveBlock>& blocks = state.shadow().blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (pass.busy_every > 0 && i % pass.busy_every == 0) continue;
    const bool read_only =
        pass.read_only_every > 0 && i % pass.read_only_every == 0;
    state.Declare(&blocks[i], blocks[i].stream, read_only);
  }
}

// Whether a pass may end like this.
bool IsExcused(const Compact& pass, const State& state,
               const absl::Status& status) {
  if (state.was_faulted()) return true;
  if (pass.impatient && absl::IsDeadlineExceeded(status)) return true;
  return pass.level != CompactionLevel::kCallerPromises &&
         state.IsOfGateInDoubt(status);
}

// Of what hooks have been told so far.
struct HookCalls {
  explicit HookCalls(const HookAccount& hooks)
      : calls(hooks.calls()), vetoes(hooks.vetoes()) {}
  uint64_t calls = 0;
  uint64_t vetoes = 0;
};

void CheckReport(const Compact& pass, const PoolStats& before,
                 const HookCalls& hooks_before, const CompactionReport& report,
                 State& state) {
  const HookCalls hooks(state.hooks());
  const PoolStats after = state.pool().GetStats();
  const auto expect = [&](bool is_so, absl::string_view what) {
    if (is_so) return;
    state.Fail(absl::StrCat(what, ": ", report.ToString(), "\n",
                            Difference(before, after)));
  };
  expect(report.granules_after + report.granules_recovered ==
             report.granules_before,
         "the report does not add up");
  expect(report.granules_after >= report.lower_bound_granules,
         "a pass went below the lower bound");
  expect(pass.max_bytes == 0 || report.bytes_copied <= pass.max_bytes,
         "I9: max_bytes");
  expect(pass.max_moves == 0 || report.moves <= pass.max_moves,
         "I9: max_moves");
  expect(pass.wanted_granules == 0 ||
             report.granules_recovered <= pass.wanted_granules,
         "more granules than wanted");
  // A structure's block may lie on several sources, which one veto refuses.
  const uint64_t vetoes = hooks.vetoes - hooks_before.vetoes;
  expect(state.setting().placement == PlacementKind::kFirn
             ? report.vetoed_sources == vetoes
             : report.vetoed_sources >= vetoes &&
                   (report.vetoed_sources == 0) == (vetoes == 0),
         "vetoed_sources is not how often hooks refused");
  expect((report.moves == 0) == (report.granules_recovered == 0),
         "moves without gain, or gain without moves");
  if (pass.dry_run) {
    expect(Difference(before, after).empty(), "a dry run changed the pool");
    expect(hooks.calls == hooks_before.calls, "a dry run called hooks");
    return;
  }
  expect(after.compaction_passes == before.compaction_passes + 1 &&
             after.granules_moved == before.granules_moved + report.moves &&
             after.bytes_copied == before.bytes_copied + report.bytes_copied,
         "the pass is not in the statistics");
  // What hooks do meanwhile makes figures of its own.
  if (state.hooks().has_meddled()) return;
  // What was freed may have come back since.
  const uint64_t left_bytes = report.granules_after * after.granule_bytes;
  expect(before.pending_free_bytes == 0 ? left_bytes == after.used_bytes
                                        : left_bytes >= after.used_bytes,
         "granules_after is not what is used");
  expect(after.used_bytes <= before.used_bytes &&
             after.held_bytes <= before.held_bytes,
         "I7: a pass took memory");
}

}  // namespace

absl::string_view NameOf(CompactionLevel level) {
  switch (level) {
    case CompactionLevel::kCallerPromises:
      return "CompactionLevel::kCallerPromises";
    case CompactionLevel::kLaunchScopes:
      return "CompactionLevel::kLaunchScopes";
    case CompactionLevel::kDeclaredIdle:
      return "CompactionLevel::kDeclaredIdle";
  }
  return "";
}

absl::string_view NameOf(DriverResult result) {
  return result == DriverResult::kOutOfMemory ? "DriverResult::kOutOfMemory"
                                              : "DriverResult::kUnknown";
}

Compact Compact::Draw(Choices& choices, const Setting& setting) {
  Compact pass;
  pass.level = static_cast<CompactionLevel>(choices.Below(3));
  if (choices.OneIn(6)) {
    pass.max_bytes = choices.Between(1, setting.capacity_bytes());
  }
  if (choices.OneIn(6)) pass.max_moves = choices.Between(1, 20);
  if (choices.OneIn(6)) pass.wanted_granules = choices.Between(1, 4);
  if (choices.OneIn(4)) pass.max_pause_us = 1u << choices.Index(12);
  pass.declares_idle = choices.OneIn(2);
  if (choices.OneIn(2)) pass.busy_every = 1 + choices.Index(16);
  pass.dry_run = choices.OneIn(8);
  pass.impatient = choices.OneIn(8);
  pass.no_time = choices.OneIn(16);
  if (!choices.OneIn(4)) pass.read_only_every = 1 + choices.Index(4);
  return pass;
}

void Compact::Perform(State& state) const {
  if (level == CompactionLevel::kLaunchScopes) state.SynchronizeUnscoped();
  if (level == CompactionLevel::kDeclaredIdle && declares_idle) {
    DeclareIdle(*this, state);
  }
  const PoolStats before = state.pool().GetStats();
  const HookCalls hooks_before(state.hooks());
  const bool moves_idle_only =
      level == CompactionLevel::kDeclaredIdle && !dry_run;
  if (moves_idle_only) {
    state.idle().BeginPass(state.pool(), state.shadow().blocks());
  }
  const absl::StatusOr<CompactionReport> report =
      state.pool().Compact(OptionsOf(*this));
  if (moves_idle_only) {
    state.Expect(
        state.idle().EndPass(state.pool(), report.ok() ? report->moves : 0));
  }
  if (state.is_inside()) {
    return state.Expect(
        absl::IsFailedPrecondition(report.status()),
        absl::StrCat("Compact inside a scope: ", report.status().ToString()));
  }
  if (state.graphs().any_open() && !dry_run) {
    return state.Expect(
        absl::IsFailedPrecondition(report.status()),
        absl::StrCat("Compact while a graph-private pool is open: ",
                     report.status().ToString()));
  }
  if (!report.ok()) {
    state.Expect(IsExcused(*this, state, report.status()),
                 absl::StrCat("Compact: ", report.status().ToString()));
    return;
  }
  CheckReport(*this, before, hooks_before, *report, state);
  if (level == CompactionLevel::kCallerPromises && !dry_run &&
      !state.was_faulted()) {
    state.TrustGate();
  }
}

void Trim::Perform(State& state) const {
  const PoolStats before = state.pool().GetStats();
  const absl::StatusOr<uint64_t> released = state.pool().Trim(keep_bytes);
  const PoolStats after = state.pool().GetStats();
  state.Expect(after.held_bytes <= before.held_bytes, "Trim took memory");
  if (!released.ok()) {
    // Inside a scope nothing may be waited for.
    state.Expect(state.was_faulted() ||
                     ((state.is_inside() || state.graphs().any_open()) &&
                      absl::IsResourceExhausted(released.status())),
                 absl::StrCat("Trim: ", released.status().ToString()));
    return;
  }
  state.Expect(*released == before.held_bytes - after.held_bytes,
               "Trim: the result is not what was released");
  state.Expect(after.held_bytes <= std::max(keep_bytes, after.used_bytes) ||
                   state.was_faulted(),
               absl::StrCat("Trim kept more than it had to: ",
                            Difference(before, after)));
  // What was exported is nothing to keep.
  state.Expect(
      *released == 0 || after.held_bytes + after.granule_bytes > keep_bytes ||
          after.possibly_held_elsewhere > before.possibly_held_elsewhere,
      absl::StrCat("Trim kept less than it was to: ",
                   Difference(before, after)));
}

}  // namespace firn::testing::property
