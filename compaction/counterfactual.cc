// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/counterfactual.h"

#include <algorithm>

#include "firn/vmm/units.h"

namespace firn {
namespace {

double Quotient(uint64_t dividend, uint64_t divisor) {
  if (divisor == 0) return 0;
  return static_cast<double>(dividend) / static_cast<double>(divisor);
}

}  // namespace

DryRunFigures FiguresOf(const Plan& plan) {
  DryRunFigures figures;
  figures.planned_granules = plan.emptied_granules;
  figures.planned_bytes = QuantaToBytes(plan.copied_quanta);
  figures.planned_moves = plan.moves.size();
  return figures;
}

void CounterfactualCounters::Add(const DryRunFigures& dry_run) {
  ++looks;
  if (dry_run.planned_granules > 0) ++looks_with_gain;
  planned_granules += dry_run.planned_granules;
  planned_bytes += dry_run.planned_bytes;
  planned_moves += dry_run.planned_moves;
  most_planned_granules =
      std::max(most_planned_granules, dry_run.planned_granules);
}

double CounterfactualCounters::GranulesPerLook() const {
  return Quotient(planned_granules, looks);
}
double CounterfactualCounters::BytesPerGranule() const {
  return Quotient(planned_bytes, planned_granules);
}
double CounterfactualCounters::MovesPerGranule() const {
  return Quotient(planned_moves, planned_granules);
}

}  // namespace firn
