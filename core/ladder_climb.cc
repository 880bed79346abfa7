// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/ladder_climb.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace firn {

absl::string_view RungName(Rung rung) {
  static constexpr std::array<absl::string_view, kRungCount> kNames = {
      "parked_blocks",   "pending_frees",   "other_arenas", "unmapping",
      "merging",         "scattered_holes", "opened_hole",  "spill",
      "other_lifetimes", "callbacks"};
  return kNames[static_cast<size_t>(rung)];
}

void LadderClimb::Note(Rung rung, const RungOutcome& outcome,
                       uint64_t recovered_bytes) {
  Step step;
  step.rung = rung;
  step.outcome = outcome;
  step.recovered_bytes = recovered_bytes;
  steps_.push_back(step);
  RungStats& stats = StatsOf(rung);
  ++stats.tried;
  if (outcome.changed) ++stats.changed;
  stats.recovered_bytes += recovered_bytes;
}

void LadderClimb::NoteRescue() { ++StatsOf(steps_.back().rung).rescued; }

std::string LadderClimb::ToString() const {
  std::string text;
  for (const Step& step : steps_) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", RungName(step.rung), ": ");
    if (!step.outcome.changed) {
      absl::StrAppend(&text, step.outcome.why);
    } else if (step.recovered_bytes == 0) {
      absl::StrAppend(&text, "tried, and recovered no whole granule");
    } else {
      absl::StrAppend(&text, "recovered ", step.recovered_bytes,
                      " bytes, and still too little");
    }
  }
  return text;
}

}  // namespace firn
