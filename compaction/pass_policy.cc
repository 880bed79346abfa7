// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/pass_policy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// Fewer wasted granules are not worth a look.
constexpr uint64_t kLeastWasteGranules = 2;
// A pass was worth it if it recovered this part of what was wanted.
constexpr uint64_t kLeastGainDivisor = 50;
// Waste that passes could do nothing about is tried again when it has grown by
// this part.
constexpr uint64_t kHopelessDivisor = 8;

absl::Status CheckPercent(absl::string_view field, double percent, double least,
                          bool may_be_least) {
  const bool is_good =
      (may_be_least ? percent >= least : percent > least) && percent <= 100;
  if (is_good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": ", percent, "; must be ",
      may_be_least ? "at least " : "more than ", least, " and at most 100"));
}

absl::Status CheckPositive(absl::string_view field, absl::Duration duration) {
  if (duration > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": ", absl::FormatDuration(duration), "; must be more than 0"));
}

std::string Mebibytes(uint64_t bytes) {
  return absl::StrCat(std::round(static_cast<double>(bytes) / 104857.6) / 10,
                      " MiB");
}

std::string Describe(const HeapFigures& heap) {
  return absl::StrCat("live ", Mebibytes(heap.live_bytes), ", used ",
                      Mebibytes(heap.used_bytes), ", limit ",
                      Mebibytes(heap.limit_bytes));
}

uint64_t WasteOf(const HeapFigures& heap) {
  return heap.used_bytes - std::min(heap.used_bytes, heap.live_bytes);
}

uint64_t HeadroomOf(const HeapFigures& heap) {
  return heap.limit_bytes - std::min(heap.limit_bytes, heap.used_bytes);
}

}  // namespace

absl::string_view PassTriggerName(PassTrigger trigger) {
  switch (trigger) {
    case PassTrigger::kNone:
      return "none";
    case PassTrigger::kByHand:
      return "by hand";
    case PassTrigger::kFailure:
      return "failure";
    case PassTrigger::kForecast:
      return "forecast";
    case PassTrigger::kWaste:
      return "waste";
    case PassTrigger::kFragmentation:
      return "fragmentation";
    case PassTrigger::kFreeFragments:
      return "free fragments";
    case PassTrigger::kTimer:
      return "timer";
  }
  return "unknown";
}

absl::Status PassPolicyOptions::Validate() const {
  if (!(tolerated_waste_percent >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tolerated_waste_percent: ", tolerated_waste_percent,
                     "; must be 0 or more"));
  }
  if (free_fragments == 0) {
    return absl::InvalidArgumentError("free_fragments: 0; must be 1 or more");
  }
  for (const absl::Status& status :
       {CheckPercent("fragmentation_start_percent", fragmentation_start_percent,
                     0, true),
        CheckPercent("fragmentation_stop_percent", fragmentation_stop_percent,
                     0, true),
        CheckPercent("scarce_percent", scarce_percent, 0, true),
        CheckPercent("least_effort_percent", least_effort_percent, 0, false),
        CheckPercent("greatest_effort_percent", greatest_effort_percent, 0,
                     false),
        CheckPositive("forecast_horizon", forecast_horizon),
        CheckPositive("growth_memory", growth_memory),
        CheckPositive("period", period), CheckPositive("max_pass", max_pass),
        CheckPositive("look_interval", look_interval),
        CheckPositive("back_off", back_off)}) {
    if (!status.ok()) return status;
  }
  if (fragmentation_stop_percent > fragmentation_start_percent) {
    return absl::InvalidArgumentError(
        absl::StrCat("fragmentation_stop_percent: ", fragmentation_stop_percent,
                     "; must be no more than fragmentation_start_percent, ",
                     fragmentation_start_percent));
  }
  if (least_effort_percent > greatest_effort_percent) {
    return absl::InvalidArgumentError(
        absl::StrCat("least_effort_percent: ", least_effort_percent,
                     "; must be no more than greatest_effort_percent, ",
                     greatest_effort_percent));
  }
  return absl::OkStatus();
}

void PassPolicy::NoteGrowth(absl::Time now, const HeapFigures& heap) {
  if (has_figures_ && now > figures_time_) {
    const double elapsed_s = absl::ToDoubleSeconds(now - figures_time_);
    const double rate = (static_cast<double>(heap.used_bytes) -
                         static_cast<double>(last_used_bytes_)) /
                        elapsed_s;
    // An exponential average whose weights fall by e in growth_memory.
    const double kept =
        std::exp(-elapsed_s / absl::ToDoubleSeconds(options_.growth_memory));
    growth_ = kept * growth_ + (1 - kept) * rate;
  }
  has_figures_ = true;
  figures_time_ = now;
  last_used_bytes_ = heap.used_bytes;
}

uint64_t PassPolicy::ToleratedWaste(const HeapFigures& heap) const {
  // No more than can be wasted, as a share may be any number.
  const double share_bytes =
      std::min(static_cast<double>(heap.used_bytes),
               static_cast<double>(heap.live_bytes) / 100 *
                   options_.tolerated_waste_percent);
  return std::max(options_.tolerated_waste_bytes,
                  static_cast<uint64_t>(share_bytes));
}

bool PassPolicy::IsHopeless(uint64_t waste_bytes) const {
  return hopeless_waste_bytes_ > 0 &&
         waste_bytes <=
             hopeless_waste_bytes_ + hopeless_waste_bytes_ / kHopelessDivisor;
}

PassPolicy::Need PassPolicy::Assess(
    absl::Time now, const HeapFigures& heap, uint64_t waste_bytes,
    absl::FunctionRef<FragmentFigures()> census) {
  Need need;
  const uint64_t headroom_bytes = HeadroomOf(heap);
  if (heap.failed_allocations > seen_failures_) {
    need.trigger = PassTrigger::kFailure;
    need.need = 1;
    need.reason = absl::StrCat(heap.failed_allocations - seen_failures_,
                               " allocations have failed");
    return need;
  }
  const double horizon_s = absl::ToDoubleSeconds(options_.forecast_horizon);
  if (growth_ > 0 &&
      static_cast<double>(headroom_bytes) < growth_ * horizon_s) {
    const double left_s = static_cast<double>(headroom_bytes) / growth_;
    need.trigger = PassTrigger::kForecast;
    need.need = 1 - left_s / horizon_s;
    need.reason =
        absl::StrCat(Mebibytes(headroom_bytes), " left, used up in ",
                     std::round(left_s * 10) / 10, " s at ",
                     Mebibytes(static_cast<uint64_t>(growth_)), " a second");
    return need;
  }
  const double scarce_bytes =
      static_cast<double>(heap.limit_bytes) / 100 * options_.scarce_percent;
  const bool is_scarce = static_cast<double>(headroom_bytes) < scarce_bytes;
  if (is_scarce) {
    need.need = 1 - static_cast<double>(headroom_bytes) / scarce_bytes;
  }
  if (is_scarce || options_.is_wanted_by_others) {
    const uint64_t tolerated_bytes = ToleratedWaste(heap);
    if (waste_bytes > tolerated_bytes) {
      need.trigger = PassTrigger::kWaste;
      need.reason = absl::StrCat(Mebibytes(waste_bytes), " wasted, ",
                                 Mebibytes(tolerated_bytes), " tolerated, ",
                                 Mebibytes(headroom_bytes), " left");
      return need;
    }
    // No more can be recovered than is wasted.
    const double wasted_percent = 100 * static_cast<double>(waste_bytes) /
                                  static_cast<double>(heap.used_bytes);
    is_fragmented_ &= wasted_percent >= options_.fragmentation_stop_percent;
    if (is_fragmented_) {
      need.trigger = PassTrigger::kFragmentation;
      need.reason =
          absl::StrCat(std::round(wasted_percent * 10) / 10,
                       " % of what is used is wasted, and some of it was "
                       "recovered just now, ",
                       Mebibytes(headroom_bytes), " left");
      return need;
    }
    if (now - last_census_ >=
        (wasted_percent >= options_.fragmentation_start_percent
             ? census_interval_
             : kLongestCensusInterval)) {
      last_census_ = now;
      // Until one is worth it again.
      census_interval_ = std::min(2 * census_interval_, kLongestCensusInterval);
      const FragmentFigures fragments = census();
      const double percent = 100 *
                             static_cast<double>(fragments.recoverable_bytes) /
                             static_cast<double>(heap.used_bytes);
      const bool is_worth_it = fragments.recoverable_bytes >=
                               kLeastWasteGranules * heap.granule_bytes;
      if (is_worth_it && percent >= options_.fragmentation_start_percent) {
        is_fragmented_ = true;
        census_interval_ = kShortestCensusInterval;
        need.trigger = PassTrigger::kFragmentation;
        need.reason = absl::StrCat(std::round(percent * 10) / 10,
                                   " % of what is used could be recovered, ",
                                   Mebibytes(headroom_bytes), " left");
        return need;
      }
      if (is_worth_it && fragments.free_pieces >= options_.free_fragments) {
        need.trigger = PassTrigger::kFreeFragments;
        need.reason = absl::StrCat(fragments.free_pieces, " free pieces, ",
                                   Mebibytes(headroom_bytes), " left");
        return need;
      }
    }
  }
  if (now - last_pass_ >= options_.period) {
    need.trigger = PassTrigger::kTimer;
    need.need = 0;
    need.reason = absl::StrCat("the last pass was ",
                               absl::FormatDuration(now - last_pass_), " ago");
  }
  return need;
}

PassDecision PassPolicy::LeaveAlone(absl::Time now, const HeapFigures& heap,
                                    absl::string_view why) {
  PassDecision decision;
  decision.next_look = now + options_.look_interval;
  if (last_reason_ != why) {
    last_reason_ = std::string(why);
    decision.reason = absl::StrCat("left alone: ", why, "; ", Describe(heap));
  }
  return decision;
}

PassDecision PassPolicy::Decide(absl::Time now, const HeapFigures& heap,
                                absl::FunctionRef<FragmentFigures()> census) {
  if (!has_figures_) {
    // What was before is nobody's any more.
    seen_failures_ = heap.failed_allocations;
    last_pass_ = now;
  }
  failures_ = heap.failed_allocations;
  NoteGrowth(now, heap);
  const uint64_t waste_bytes = WasteOf(heap);
  if (waste_bytes < kLeastWasteGranules * heap.granule_bytes ||
      heap.granule_bytes == 0) {
    back_off_shift_ = 0;
    hopeless_waste_bytes_ = 0;
    // Nothing that a pass could have helped.
    seen_failures_ = heap.failed_allocations;
    return LeaveAlone(now, heap, "not fragmented");
  }
  if (now < not_before_) {
    PassDecision decision = LeaveAlone(
        now, heap,
        back_off_shift_ > 0 ? "the last pass recovered little"
                            : "passes have had their share of the time");
    decision.next_look = std::max(decision.next_look, not_before_);
    return decision;
  }
  if (now < hopeless_until_ && IsHopeless(waste_bytes) &&
      heap.failed_allocations == seen_failures_) {
    return LeaveAlone(now, heap, "what is wasted cannot be recovered");
  }
  Need need = Assess(now, heap, waste_bytes, census);
  if (need.trigger == PassTrigger::kNone) {
    return LeaveAlone(now, heap, "fragmented, but nobody wants more");
  }
  last_reason_.clear();
  PassDecision decision;
  decision.trigger = need.trigger;
  decision.effort_percent = options_.least_effort_percent +
                            need.need * (options_.greatest_effort_percent -
                                         options_.least_effort_percent);
  decision.max_duration = options_.max_pass;
  // The more it is wanted, the less is left.
  const uint64_t left_bytes = static_cast<uint64_t>(
      static_cast<double>(std::min(waste_bytes, ToleratedWaste(heap))) *
      (1 - need.need));
  decision.wanted_granules =
      std::max<uint64_t>(1, (waste_bytes - left_bytes) / heap.granule_bytes);
  decision.next_look = now + options_.look_interval;
  decision.reason =
      absl::StrCat("a pass by ", PassTriggerName(need.trigger), ": ",
                   need.reason, "; ", Describe(heap), "; effort ",
                   std::round(decision.effort_percent * 10) / 10, " %, ",
                   decision.wanted_granules, " granules wanted");
  return decision;
}

PassDecision PassPolicy::DecideByHand(absl::Time now) const {
  PassDecision decision;
  decision.trigger = PassTrigger::kByHand;
  decision.max_duration = absl::InfiniteDuration();
  decision.effort_percent = 100;
  decision.next_look = now + options_.look_interval;
  decision.reason = "a pass by hand";
  return decision;
}

void PassPolicy::NoteResult(absl::Time now, const PassDecision& decision,
                            absl::Duration elapsed, uint64_t recovered_granules,
                            const HeapFigures& heap) {
  last_pass_ = now;
  // What passes recover is no growth, nor its end.
  last_used_bytes_ = heap.used_bytes;
  figures_time_ = now;
  const uint64_t least =
      std::max<uint64_t>(1, decision.wanted_granules / kLeastGainDivisor);
  if (recovered_granules >= least) {
    back_off_shift_ = 0;
    hopeless_waste_bytes_ = 0;
    not_before_ = now + elapsed * (100 / decision.effort_percent - 1);
    if (recovered_granules >= decision.wanted_granules) {
      seen_failures_ = failures_;
    }
    return;
  }
  is_fragmented_ = false;
  seen_failures_ = failures_;
  if (recovered_granules == 0) {
    hopeless_waste_bytes_ = WasteOf(heap);
    // Then once more: pins may be gone.
    hopeless_until_ = now + options_.back_off * (1 << kMostShifts);
  }
  BackOff(now);
}

void PassPolicy::NoteFailure(absl::Time now, const PassDecision& decision) {
  last_pass_ = now;
  if (decision.trigger != PassTrigger::kByHand) BackOff(now);
}

void PassPolicy::BackOff(absl::Time now) {
  not_before_ = now + options_.back_off * (1 << back_off_shift_);
  back_off_shift_ = std::min(back_off_shift_ + 1, kMostShifts);
}

}  // namespace firn
