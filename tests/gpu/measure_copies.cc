// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies within the device: granule by granule, and over many in one call.

#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "copies";
constexpr int kMostRounds = 50;

struct CopyCase {
  uint64_t granules;
  bool one_call;
};
constexpr CopyCase kCases[] = {{1, true},    {16, false}, {16, true},
                               {256, false}, {256, true}, {2048, true}};

absl::Status CopyOnce(const Scene& scene, const GranuleRow& row,
                      const CopyCase& each, const OwnStream& stream) {
  const uint64_t calls = each.one_call ? 1 : each.granules;
  const uint64_t granules = each.granules / calls;
  for (uint64_t i = 0; i < calls; ++i) {
    FIRN_TRY_CALL(
        "cuMemcpyDtoDAsync",
        scene.driver().MemcpyDtoDAsync(row.At(each.granules + i), row.At(i),
                                       scene.Bytes(granules), stream.get()));
  }
  return stream.Synchronize();
}

}  // namespace

absl::Status MeasureCopies(MeasureContext& context) {
  const Scene& scene = context.scene;
  context.report.BeginTable(
      {kTable,
       "copies within the device, to their end: GB/s of what is copied (as "
       "much is read as is written)",
       {"granules", "calls", "median_us", "p10_us", "p90_us", "median_gb_s",
        "count"},
       {}});
  FIRN_TRY_ASSIGN(const std::unique_ptr<OwnStream> stream,
                  OwnStream::Create(&context.driver()));
  size_t left = std::size(kCases);
  for (const CopyCase& each : kCases) {
    const Deadline share =
        context.deadline.Share(1.0 / static_cast<double>(left--));
    if (!scene.Afford(2 * each.granules, 0.8, 2 * each.granules).ok()) {
      context.report.Note(absl::StrCat("copies: none of ", each.granules,
                                       " granules: too little free memory"));
      continue;
    }
    FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> row,
                    GranuleRow::Mapped(scene, 2 * each.granules));
    FIRN_TRY(CopyOnce(scene, *row, each, *stream));  // to warm up
    SampleSet samples;
    for (int round = 0; round < kMostRounds; ++round) {
      if (round > 0 && share.Passed()) break;
      absl::Status status;
      samples.Add(
          TimeUs([&] { status = CopyOnce(scene, *row, each, *stream); }));
      FIRN_TRY(status);
    }
    const double bytes = static_cast<double>(scene.Bytes(each.granules));
    context.report.AddRow(
        kTable,
        {NumberCell(each.granules),
         TextCell(each.one_call ? "one for all" : "one a granule"),
         NumberCell(samples.median()), NumberCell(samples.p10()),
         NumberCell(samples.p90()), NumberCell(bytes / samples.median() / 1e3),
         NumberCell(samples.count())});
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
