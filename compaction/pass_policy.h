// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a pass is worth it, and how much of it: decided from plain figures and
// the time, so that the same figures make the same decisions everywhere.
//
// A pass is made where memory is both fragmented and wanted, or where it is
// asked for. It may take a share of the time that grows with the need for it; a
// pass that recovers little makes the next one wait, for twice as long each
// time.

#ifndef FIRN_COMPACTION_PASS_POLICY_H_
#define FIRN_COMPACTION_PASS_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace firn {

// Why a pass is made. Those in front are looked at first.
enum class PassTrigger : uint8_t {
  kNone,
  kByHand,         // somebody asks for it
  kFailure,        // an allocation has failed
  kForecast,       // memory would run out before long
  kWaste,          // more is wasted than tolerated
  kFragmentation,  // much of what is used could be recovered
  kFreeFragments,  // what is free is in many pieces
  kTimer,          // the last pass was long ago
};
inline constexpr size_t kPassTriggers = 8;
// "failure", "free fragments".
absl::string_view PassTriggerName(PassTrigger trigger);

struct PassPolicyOptions {
  // Waste is used bytes less live bytes. kWaste: more than the larger of both;
  // the share is of the live bytes, 0 or more.
  uint64_t tolerated_waste_bytes = 100'000'000;
  double tolerated_waste_percent = 10;
  // kFragmentation: begins where passes could recover this share of the used
  // granules at most, and goes on until no more than the second is wasted, so
  // that it does not begin again at once. In [0, 100], the second no more than
  // the first.
  double fragmentation_start_percent = 5;
  double fragmentation_stop_percent = 3;
  // kFreeFragments: free pieces in used granules. 1 or more.
  uint64_t free_fragments = 100;
  // kForecast: memory would run out within so long if used bytes went on to
  // grow as they have of late (over some growth_memory). More than 0.
  absl::Duration forecast_horizon = absl::Seconds(10);
  absl::Duration growth_memory = absl::Seconds(5);
  // kTimer: time from one pass to the next. More than 0.
  absl::Duration period = absl::InfiniteDuration();

  // Whether others want what this pool could give back, so that waste,
  // fragmentation and fragments count however much room it has left itself.
  // Otherwise they count once less than this share of the limit is left, in
  // [0, 100].
  bool is_wanted_by_others = false;
  double scarce_percent = 50;

  // Least and greatest share of the time that passes may take, in (0, 100], the
  // first no more than the second: the second where memory has run out.
  double least_effort_percent = 1;
  double greatest_effort_percent = 25;
  // One pass takes no longer than this, as far as can be foreseen. More than 0.
  absl::Duration max_pass = absl::Milliseconds(25);
  // From one look at the figures to the next. More than 0.
  absl::Duration look_interval = absl::Milliseconds(100);
  // The wait after a pass that recovered little; doubled for each that follows
  // it, 64 times at most. More than 0.
  absl::Duration back_off = absl::Milliseconds(500);

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right.
  absl::Status Validate() const;
};

// What costs next to nothing to know.
struct HeapFigures {
  uint64_t granule_bytes = 0;  // 0: nothing can move
  uint64_t live_bytes = 0;     // on the device
  uint64_t used_bytes = 0;
  uint64_t limit_bytes = 0;
  uint64_t failed_allocations = 0;  // since creation
};

// What takes a look at every granule.
struct FragmentFigures {
  uint64_t recoverable_bytes = 0;  // the most that passes could
  uint64_t free_pieces = 0;
};

struct PassDecision {
  PassTrigger trigger = PassTrigger::kNone;
  uint64_t wanted_granules = 0;  // 0: as many as can be
  absl::Duration max_duration;   // of the pass
  double effort_percent = 0;     // of the time
  // When to look again, if nothing happens before.
  absl::Time next_look;
  // Why, with the figures that it comes from. Empty where the last reason for
  // leaving all alone still holds.
  std::string reason;
};

// Not thread-safe.
class PassPolicy {
 public:
  // `options` are valid.
  explicit PassPolicy(const PassPolicyOptions& options) : options_(options) {}

  // Time must not go back. `census` is called only where its figures decide.
  PassDecision Decide(absl::Time now, const HeapFigures& heap,
                      absl::FunctionRef<FragmentFigures()> census);
  // One for a request of kByHand: nothing is waited for, and all is moved that
  // can be.
  PassDecision DecideByHand(absl::Time now) const;

  // The pass of `decision` took so long, until `now`, and recovered so much.
  // `heap` is as it left it.
  void NoteResult(absl::Time now, const PassDecision& decision,
                  absl::Duration elapsed, uint64_t recovered_granules,
                  const HeapFigures& heap);

  // It failed: that says nothing of the heap, but the next one waits likewise.
  void NoteFailure(absl::Time now, const PassDecision& decision);

  // How often the wait has been doubled, 0 after a pass that was worth it.
  int back_off_shift() const { return back_off_shift_; }
  // Growth of the used bytes of late, in bytes a second; below 0 if they fall.
  double growth_bytes_per_second() const { return growth_; }

 private:
  static constexpr int kMostShifts = 6;
  // The walk over all granules takes up to 40 ms (docs/statistics.md).
  static constexpr absl::Duration kShortestCensusInterval = absl::Seconds(1);
  static constexpr absl::Duration kLongestCensusInterval = absl::Seconds(32);

  struct Need {
    PassTrigger trigger = PassTrigger::kNone;
    double need = 0;  // in [0, 1]
    std::string reason;
  };

  void NoteGrowth(absl::Time now, const HeapFigures& heap);
  uint64_t ToleratedWaste(const HeapFigures& heap) const;
  // Whether nothing has become better for a pass since the last one that was of
  // no use.
  bool IsHopeless(uint64_t waste_bytes) const;
  Need Assess(absl::Time now, const HeapFigures& heap, uint64_t waste_bytes,
              absl::FunctionRef<FragmentFigures()> census);
  void BackOff(absl::Time now);
  PassDecision LeaveAlone(absl::Time now, const HeapFigures& heap,
                          absl::string_view why);

  const PassPolicyOptions options_;
  bool has_figures_ = false;
  absl::Time figures_time_;
  uint64_t last_used_bytes_ = 0;
  double growth_ = 0;
  // Allocations that failed, and those of them that passes have done for what
  // they could.
  uint64_t failures_ = 0;
  uint64_t seen_failures_ = 0;
  bool is_fragmented_ = false;  // between start and stop
  absl::Time last_census_ = absl::InfinitePast();
  absl::Duration census_interval_ = kShortestCensusInterval;
  absl::Time last_pass_;
  absl::Time not_before_ = absl::InfinitePast();
  int back_off_shift_ = 0;
  uint64_t hopeless_waste_bytes_ = 0;  // 0: none is known to be
  absl::Time hopeless_until_ = absl::InfinitePast();
  std::string last_reason_;
};

}  // namespace firn

#endif  // FIRN_COMPACTION_PASS_POLICY_H_
