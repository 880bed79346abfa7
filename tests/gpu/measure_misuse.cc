// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the device answers each misuse, beside the CPU driver's answer: this is
// where reality differs.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "tests/gpu/cpu_twin.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/misuse_cases.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "misuse";

// In words: a code, or why there is none.
std::string Answer(const MisuseCase& each, const Scene& scene) {
  MisuseStage stage(scene);
  const DriverResult result = each.make(stage);
  if (!stage.failure().empty()) return stage.failure();
  const absl::string_view name = DriverResultName(result);
  if (name == DriverResultName(static_cast<DriverResult>(-1))) {
    return absl::StrCat("result ", static_cast<int32_t>(result));
  }
  return std::string(name);
}

// On a fresh CPU driver each: some of them lose it.
absl::StatusOr<std::string> CpuAnswer(const MisuseCase& each,
                                      const Scene& device) {
  FIRN_TRY_ASSIGN(const CpuTwin twin, CpuTwin::Create(device));
  return Answer(each, twin.scene());
}

bool IsLost(Driver& driver) { return IsStickyResult(driver.CtxSynchronize()); }

}  // namespace

absl::Status MeasureMisuse(MeasureContext& context) {
  context.report.BeginTable(
      {kTable,
       "answers to misuse, the CPU driver's and this device's",
       {"misuse", "CPU driver", "this device", "differs"},
       {}});
  const std::vector<MisuseCase> cases = AllMisuseCases();
  for (size_t i = context.first_step; i < cases.size(); ++i) {
    const MisuseCase& each = cases[i];
    if (context.deadline.Passed()) {
      context.report.Note("misuse: not all was tried: out of time");
      return absl::OkStatus();
    }
    FIRN_TRY_ASSIGN(const std::string cpu, CpuAnswer(each, context.scene));
    context.report.BeginStep(i, each.name);
    context.report.RowIfLost(
        kTable, {TextCell(each.name), TextCell(cpu),
                 TextCell("the process dies or hangs"), TextCell("DIFFERS")});
    const std::string device = Answer(each, context.scene);
    context.report.AddRow(kTable,
                          {TextCell(each.name), TextCell(cpu), TextCell(device),
                           TextCell(cpu == device ? "" : "DIFFERS")});
    if ((each.own_process || IsLost(context.driver())) &&
        i + 1 < cases.size()) {
      context.report.GoOnFrom(i + 1);
      context.continues = true;
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
