// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading the same bytes through k times as many virtual granules: whether k
// aliases a granule cost bandwidth, by their pressure on the TLBs.

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "aliases";
constexpr uint32_t kAliases[] = {1, 4, 8};
constexpr uint64_t kGranules[] = {512, 4096, 16384};
constexpr int kMostRounds = 20;

// Granules, each mapped at `aliases` neighbouring addresses.
absl::StatusOr<std::unique_ptr<GranuleRow>> MapAliases(
    const Scene& scene, const std::vector<PhysicalHandle>& handles,
    uint32_t aliases) {
  const uint64_t vgs = handles.size() * aliases;
  FIRN_TRY_ASSIGN(std::unique_ptr<GranuleRow> row,
                  GranuleRow::Reserve(scene, vgs));
  for (uint64_t vg = 0; vg < vgs; ++vg) {
    FIRN_TRY_CALL("cuMemMap", scene.Map(row->At(vg), handles[vg / aliases]));
  }
  FIRN_TRY(row->SetAccess(0, vgs));
  return row;
}

absl::StatusOr<SampleSet> TimeReads(Kernels& kernels, StreamHandle stream,
                                    const ReadPlan& plan,
                                    const Deadline& deadline) {
  FIRN_TRY(kernels.LaunchRead(stream, plan));  // to warm up
  FIRN_TRY(kernels.Synchronize(stream));
  SampleSet samples;
  for (int round = 0; round < kMostRounds; ++round) {
    if (round > 0 && deadline.Passed()) break;
    absl::Status status;
    samples.Add(TimeUs([&] {
      status = kernels.LaunchRead(stream, plan);
      if (status.ok()) status = kernels.Synchronize(stream);
    }));
    FIRN_TRY(status);
  }
  return samples;
}

absl::Status MeasureGranules(MeasureContext& context, Kernels& kernels,
                             StreamHandle stream, DevicePtr sink,
                             uint64_t granules, const Deadline& deadline) {
  const Scene& scene = context.scene;
  FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> memory,
                  GranuleRow::Mapped(scene, granules));
  FIRN_TRY_CALL("cuMemsetD8Async",
                scene.driver().MemsetD8Async(memory->base(), 0,
                                             scene.Bytes(granules), stream));
  FIRN_TRY(kernels.Synchronize(stream));
  double base_gb_s[2] = {0, 0};
  size_t left = std::size(kAliases) * 2;
  for (const uint32_t aliases : kAliases) {
    FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> row,
                    MapAliases(scene, memory->handles(), aliases));
    for (const bool interleaved : {false, true}) {
      ReadPlan plan;
      plan.base = row->base();
      plan.vg_bytes = scene.granule_bytes();
      plan.part_bytes = scene.granule_bytes() / aliases;
      plan.aliases = aliases;
      plan.vg_count = static_cast<uint32_t>(granules * aliases);
      plan.interleaved = interleaved;
      plan.sink = sink;
      FIRN_TRY_ASSIGN(
          const SampleSet samples,
          TimeReads(kernels, stream, plan,
                    deadline.Share(1.0 / static_cast<double>(left--))));
      const double gb_s =
          static_cast<double>(plan.bytes()) / samples.median() / 1e3;
      double& base = base_gb_s[interleaved ? 1 : 0];
      if (aliases == 1) base = gb_s;
      context.report.AddRow(
          kTable, WithFigures({NumberCell(granules),
                               TextCell(interleaved ? "granules in turn"
                                                    : "granule by granule"),
                               NumberCell(aliases), NumberCell(gb_s),
                               NumberCell(base > 0 ? gb_s / base : 0)},
                              samples));
    }
    // The granules of the row are mapped one by one; all go at once.
    FIRN_TRY_CALL("cuMemUnmap", scene.Unmap(row->base(), granules * aliases));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureAliases(MeasureContext& context) {
  context.report.BeginTable(
      {kTable,
       "a kernel reads the same bytes through k addresses a granule, each part "
       "of a granule through another one",
       WithFigures({"granules", "order", "k", "gb_s", "to k=1"}, "us"),
       {}});
  FIRN_TRY_ASSIGN(const std::unique_ptr<Kernels> kernels,
                  Kernels::Open(context.library, context.scene.ordinal(),
                                ContextKind::kPrimary));
  FIRN_TRY_ASSIGN(const StreamHandle stream, kernels->NewStream());
  FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> sink,
                  GranuleRow::Mapped(context.scene, 1));
  FIRN_TRY_ASSIGN(const uint64_t most, context.scene.Afford(16384, 0.7, 4));
  uint64_t measured = 0;
  double us_a_granule = 0;  // of all that it takes, the last time
  size_t left = std::size(kGranules);
  for (const uint64_t wanted : kGranules) {
    const Deadline share =
        context.deadline.Share(1.0 / static_cast<double>(left--));
    const uint64_t granules = std::min(wanted, most);
    if (granules == measured) break;
    const double expected_us = us_a_granule * static_cast<double>(granules);
    if (expected_us > absl::ToDoubleMicroseconds(context.deadline.Left())) {
      context.report.Note(
          absl::StrCat("aliases: no time left for ", granules, " granules"));
      break;
    }
    measured = granules;
    absl::Status status;
    us_a_granule = TimeUs([&] {
                     status = MeasureGranules(context, *kernels, stream,
                                              sink->base(), granules, share);
                   }) /
                   static_cast<double>(granules);
    FIRN_TRY(status);
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
