// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many granules a second can be moved under their addresses: copied through
// a staging address, unmapped, mapped to the new handle, made accessible.

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "moves";
constexpr uint64_t kBatches[] = {1, 16, 128};
constexpr int kMostRounds = 200;

// Microseconds of one move of a batch, by phase.
struct Phases {
  SampleSet stage;   // map and set-access at the staging address
  SampleSet copy;    // queue the copies and wait for them
  SampleSet window;  // unmap, map, set-access: nobody may use the addresses
  SampleSet unmap;   // of which
  SampleSet map;
  SampleSet set_access;
  SampleSet unstage;
  SampleSet granules_per_s;
};

class Mover {
 public:
  Mover(const Scene& scene, GranuleRow* home, GranuleRow* staging,
        StreamHandle stream)
      : scene_(scene),
        home_(*home),
        staging_(*staging),
        stream_(stream),
        targets_(staging->handles()) {}

  absl::Status MoveAll(Phases* phases) {
    const uint64_t n = home_.granules();
    const double start_us = NowUs();
    FIRN_TRY(Time(&phases->stage, [&]() -> absl::Status {
      FIRN_TRY(Map(staging_));
      return SetAccess(staging_);
    }));
    FIRN_TRY(Time(&phases->copy, [&] { return Copy(); }));
    const double window_us = NowUs();
    FIRN_TRY(Time(&phases->unmap, [&] {
      return ToStatus(scene_.Unmap(home_.base(), n), "cuMemUnmap");
    }));
    FIRN_TRY(Time(&phases->map, [&] { return Map(home_); }));
    FIRN_TRY(Time(&phases->set_access, [&] { return SetAccess(home_); }));
    phases->window.Add(NowUs() - window_us);
    FIRN_TRY(Time(&phases->unstage, [&] {
      return ToStatus(scene_.Unmap(staging_.base(), n), "cuMemUnmap");
    }));
    phases->granules_per_s.Add(static_cast<double>(n) * 1e6 /
                               (NowUs() - start_us));
    std::swap(targets_, home_.handles());
    return absl::OkStatus();
  }

 private:
  template <typename Function>
  absl::Status Time(SampleSet* samples, Function function) {
    absl::Status status;
    samples->Add(TimeUs([&] { status = function(); }));
    return status;
  }
  absl::Status Map(const GranuleRow& row) {
    for (uint64_t i = 0; i < row.granules(); ++i) {
      FIRN_TRY_CALL("cuMemMap", scene_.Map(row.At(i), targets_[i]));
    }
    return absl::OkStatus();
  }
  absl::Status SetAccess(const GranuleRow& row) {
    return ToStatus(scene_.SetAccess(row.base(), row.granules()),
                    "cuMemSetAccess");
  }
  absl::Status Copy() {
    for (uint64_t i = 0; i < home_.granules(); ++i) {
      FIRN_TRY_CALL("cuMemcpyDtoDAsync", scene_.driver().MemcpyDtoDAsync(
                                             staging_.At(i), home_.At(i),
                                             scene_.granule_bytes(), stream_));
    }
    return ToStatus(scene_.driver().StreamSynchronize(stream_),
                    "cuStreamSynchronize");
  }

  const Scene& scene_;
  GranuleRow& home_;
  GranuleRow& staging_;
  const StreamHandle stream_;
  std::vector<PhysicalHandle>& targets_;  // of the next move
};

}  // namespace

absl::Status MeasureMoves(MeasureContext& context) {
  const Scene& scene = context.scene;
  context.report.BeginTable(
      {kTable,
       "moving granules under their addresses: granules a second, and "
       "microseconds a granule by phase",
       {"granules", "median_per_s", "p10_per_s", "p90_per_s", "stage_us",
        "copy_us", "unmap_us", "map_us", "set_access_us", "window_us",
        "window_p90_us", "unstage_us", "count"},
       {}});
  FIRN_TRY_ASSIGN(const std::unique_ptr<OwnStream> stream,
                  OwnStream::Create(&context.driver()));
  size_t left = std::size(kBatches);
  for (const uint64_t granules : kBatches) {
    const Deadline share =
        context.deadline.Share(1.0 / static_cast<double>(left--));
    if (!scene.Afford(2 * granules, 0.8, 2 * granules).ok()) {
      context.report.Note(absl::StrCat("moves: no batches of ", granules,
                                       " granules: too little free memory"));
      continue;
    }
    FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> home,
                    GranuleRow::Mapped(scene, granules));
    FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> staging,
                    GranuleRow::Reserve(scene, granules));
    FIRN_TRY(staging->CreateHandles(granules));
    Mover mover(scene, home.get(), staging.get(), stream->get());
    Phases phases;
    for (int round = 0; round < kMostRounds; ++round) {
      if (round > 0 && share.Passed()) break;
      FIRN_TRY(mover.MoveAll(&phases));
    }
    const auto a_granule = [granules](double us) {
      return NumberCell(us / static_cast<double>(granules));
    };
    context.report.AddRow(
        kTable,
        {NumberCell(granules), NumberCell(phases.granules_per_s.median()),
         NumberCell(phases.granules_per_s.p10()),
         NumberCell(phases.granules_per_s.p90()),
         a_granule(phases.stage.median()), a_granule(phases.copy.median()),
         a_granule(phases.unmap.median()), a_granule(phases.map.median()),
         a_granule(phases.set_access.median()),
         a_granule(phases.window.median()), a_granule(phases.window.p90()),
         a_granule(phases.unstage.median()),
         NumberCell(phases.window.count())});
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
