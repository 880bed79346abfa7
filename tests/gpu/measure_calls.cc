// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long each call on virtual memory takes, by the number of granules it or
// the run of calls is about, with the device idle and at work.

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/busy_streams.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "calls";
constexpr uint64_t kBatches[] = {1, 4, 16, 64, 256, 1024};
constexpr uint64_t kMostGranuleCalls = 4096;  // of each kind and batch
constexpr uint64_t kLeastRounds = 10;

// The calls in the order in which they are made.
enum Call {
  kReserve,
  kCreate,
  kMap,
  kSetAccess,
  kGetAccess,
  kRetain,
  kUnmap,
  kRelease,
  kAddressFree,
  kCalls
};
struct CallName {
  const char* name;
  bool once;  // for the whole batch, not once a granule
};
constexpr CallName kNames[kCalls] = {
    {"cuMemAddressReserve", true}, {"cuMemCreate", false},
    {"cuMemMap", false},           {"cuMemSetAccess", true},
    {"cuMemGetAccess", false},     {"cuMemRetainAllocationHandle", false},
    {"cuMemUnmap", true},          {"cuMemRelease", false},
    {"cuMemAddressFree", true},
};

// The life of one batch of granules, each call timed.
class Batch {
 public:
  Batch(const Scene& scene, uint64_t granules)
      : scene_(scene), granules_(granules), handles_(granules) {}

  // After a failure things are left behind: the process ends soon.
  absl::Status Live() {
    Driver& driver = scene_.driver();
    FIRN_TRY(Once(kReserve, [&] { return scene_.Reserve(&base_, granules_); }));
    FIRN_TRY(
        Each(kCreate, [&](uint64_t i) { return scene_.Create(&handles_[i]); }));
    FIRN_TRY(Each(kMap, [&](uint64_t i) {
      return scene_.Map(scene_.At(base_, i), handles_[i]);
    }));
    FIRN_TRY(
        Once(kSetAccess, [&] { return scene_.SetAccess(base_, granules_); }));
    const MemLocation location = scene_.Location();
    FIRN_TRY(Each(kGetAccess, [&](uint64_t i) {
      AccessFlags flags = AccessFlags::kNone;
      return driver.MemGetAccess(&flags, &location, scene_.At(base_, i));
    }));
    std::vector<PhysicalHandle> retained(granules_);
    FIRN_TRY(Each(kRetain, [&](uint64_t i) {
      return driver.MemRetainAllocationHandle(&retained[i],
                                              scene_.At(base_, i));
    }));
    for (PhysicalHandle handle : retained) {
      FIRN_TRY_CALL("cuMemRelease", driver.MemRelease(handle));
    }
    FIRN_TRY(Once(kUnmap, [&] { return scene_.Unmap(base_, granules_); }));
    FIRN_TRY(Each(kRelease,
                  [&](uint64_t i) { return driver.MemRelease(handles_[i]); }));
    return Once(kAddressFree, [&] { return scene_.Free(base_, granules_); });
  }

  const SampleSet& samples(int call) const { return samples_[call]; }

 private:
  template <typename Function>
  absl::Status Once(Call call, Function function) {
    DriverResult result = DriverResult::kSuccess;
    samples_[call].Add(TimeUs([&] { result = function(); }));
    return ToStatus(result, kNames[call].name);
  }
  template <typename Function>
  absl::Status Each(Call call, Function function) {
    for (uint64_t i = 0; i < granules_; ++i) {
      FIRN_TRY(Once(call, [&] { return function(i); }));
    }
    return absl::OkStatus();
  }

  const Scene& scene_;
  const uint64_t granules_;
  DevicePtr base_ = 0;
  std::vector<PhysicalHandle> handles_;
  SampleSet samples_[kCalls];
};

absl::Status MeasureBatches(MeasureContext& context, const char* device_state,
                            const Deadline& deadline) {
  FIRN_TRY_ASSIGN(const uint64_t most, context.scene.Afford(1024, 0.5));
  size_t left = std::size(kBatches);
  for (const uint64_t granules : kBatches) {
    // Large ones take longest: they get what earlier ones left.
    const Deadline share = deadline.Share(1.0 / static_cast<double>(left--));
    if (granules > most) {
      context.report.Note(absl::StrCat("calls: no batches of ", granules,
                                       " granules: too little free memory"));
      continue;
    }
    Batch batch(context.scene, granules);
    const uint64_t rounds =
        std::max(kLeastRounds, kMostGranuleCalls / granules / 4);
    for (uint64_t round = 0; round < rounds; ++round) {
      if (round > 0 && share.Passed()) break;
      FIRN_TRY(batch.Live());
    }
    for (int call = 0; call < kCalls; ++call) {
      context.report.AddRow(
          kTable,
          WithFigures(
              {TextCell(kNames[call].name), NumberCell(granules),
               TextCell(kNames[call].once ? "one for all" : "one a granule"),
               TextCell(device_state)},
              batch.samples(call)));
    }
    if (deadline.Passed()) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureCalls(MeasureContext& context) {
  context.report.BeginTable(
      {kTable,
       "microseconds a call, by the granules of the run it belongs to",
       WithFigures({"call", "granules", "calls", "at work"}, "us"),
       {}});
  FIRN_TRY(MeasureBatches(context, "idle", context.deadline.Share(0.5)));
  FIRN_TRY_ASSIGN(const std::unique_ptr<BusyStreams> busy,
                  BusyStreams::Start(context.scene));
  FIRN_TRY(MeasureBatches(context, "copies on 4 streams", context.deadline));
  return busy->status();
}

}  // namespace firn::gpu_check
