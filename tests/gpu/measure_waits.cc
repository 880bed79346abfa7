// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether calls on virtual memory wait for work that runs: each is timed while
// a stream is kept from going on.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/gpu/blocker.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "waits";
constexpr absl::Duration kBlockedFor = absl::Milliseconds(200);
constexpr int kMostTrials = 5;

enum class Call { kCreate, kMap, kSetAccess, kUnmap, kRelease };
struct CallCase {
  Call call;
  const char* name;
  bool of_used_memory;  // can be made on memory that a kernel was given
};
constexpr CallCase kCalls[] = {
    {Call::kCreate, "cuMemCreate", false},
    {Call::kMap, "cuMemMap", false},
    {Call::kSetAccess, "cuMemSetAccess", true},
    {Call::kUnmap, "cuMemUnmap", true},
    {Call::kRelease, "cuMemRelease", true},
};

enum class Work { kUsedMemory, kOtherMemory, kSecondContext, kValueWait };
struct WorkCase {
  Work work;
  const char* name;
};
constexpr WorkCase kWorks[] = {
    {Work::kUsedMemory, "a kernel that read the memory at its start"},
    {Work::kOtherMemory, "a kernel with nothing to do with the memory"},
    {Work::kSecondContext, "a kernel in a second context"},
    {Work::kValueWait, "a stream that waits for a value of the host"},
};

// One granule of memory in the state that a call needs.
class Subject {
 public:
  Subject(const Scene& scene, Call call) : scene_(scene), call_(call) {}

  absl::Status Prepare() {
    FIRN_TRY_CALL("cuMemAddressReserve", scene_.Reserve(&address_, 1));
    if (call_ == Call::kCreate) return absl::OkStatus();
    FIRN_TRY_CALL("cuMemCreate", scene_.Create(&handle_));
    if (call_ == Call::kMap) return absl::OkStatus();
    FIRN_TRY_CALL("cuMemMap", scene_.Map(address_, handle_));
    mapped_ = true;
    return ToStatus(scene_.SetAccess(address_, 1), "cuMemSetAccess");
  }
  DriverResult Make() {
    switch (call_) {
      case Call::kCreate:
        return scene_.Create(&handle_);
      case Call::kMap:
        mapped_ = true;
        return scene_.Map(address_, handle_);
      case Call::kSetAccess:
        // Takes nothing away from who uses it.
        return scene_.SetAccess(address_, 1);
      case Call::kUnmap:
        mapped_ = false;
        return scene_.Unmap(address_);
      case Call::kRelease:
        return scene_.driver().MemRelease(std::exchange(handle_, 0));
    }
    return DriverResult::kUnknown;
  }
  absl::Status CleanUp() {
    if (mapped_) FIRN_TRY_CALL("cuMemUnmap", scene_.Unmap(address_));
    if (handle_ != 0) {
      FIRN_TRY_CALL("cuMemRelease", scene_.driver().MemRelease(handle_));
    }
    return ToStatus(scene_.Free(address_, 1), "cuMemAddressFree");
  }
  DevicePtr address() const { return address_; }

 private:
  const Scene& scene_;
  const Call call_;
  DevicePtr address_ = 0;
  PhysicalHandle handle_ = 0;
  bool mapped_ = false;
};

struct Trials {
  SampleSet call_us;
  int waited = 0;
};

absl::Status OneTrial(const Scene& scene, Call call, Work work,
                      Blocker& blocker, Trials* trials) {
  Subject subject(scene, call);
  FIRN_TRY(subject.Prepare());
  DevicePtr touched = 0;
  if (work == Work::kUsedMemory) {
    touched = subject.address();
    FIRN_TRY_CALL("cuMemsetD8Async",
                  scene.driver().MemsetD8Async(
                      touched, 1, scene.granule_bytes(), blocker.stream()));
  }
  FIRN_TRY(blocker.Begin(touched, kBlockedFor));
  DriverResult result = DriverResult::kSuccess;
  trials->call_us.Add(TimeUs([&] { result = subject.Make(); }));
  if (!blocker.Running()) ++trials->waited;
  FIRN_TRY(blocker.End());
  FIRN_TRY_CALL("a call while a stream is kept", result);
  return subject.CleanUp();
}

std::string Verdict(const Trials& trials) {
  const auto made = static_cast<int>(trials.call_us.count());
  if (trials.waited == 0) return "no";
  if (trials.waited == made) return "yes";
  return absl::StrCat("in ", trials.waited, " of ", made);
}

absl::StatusOr<std::unique_ptr<Blocker>> NewBlocker(MeasureContext& context,
                                                    Work work, Kernels* primary,
                                                    Kernels* second) {
  if (work == Work::kValueWait) return NewValueWait(context.scene, primary);
  return NewSpinningKernel(work == Work::kSecondContext ? second : primary);
}

// Unimplemented where there cannot be such work.
absl::Status MeasureWork(MeasureContext& context, size_t first_step,
                         const WorkCase& work, Kernels* primary,
                         Kernels* second, const Deadline& deadline) {
  FIRN_TRY_ASSIGN(const std::unique_ptr<Blocker> blocker,
                  NewBlocker(context, work.work, primary, second));
  size_t step = first_step;
  for (const CallCase& call : kCalls) {
    const size_t own_step = step++;
    if (own_step < context.first_step) continue;
    if (work.work == Work::kUsedMemory && !call.of_used_memory) continue;
    const auto row_with = [&work, &call](absl::string_view verdict) {
      return Row{TextCell(work.name), TextCell(call.name), TextCell(verdict)};
    };
    context.report.BeginStep(own_step,
                             absl::StrCat(call.name, " during ", work.name));
    context.report.RowIfLost(kTable, row_with("does not return"));
    Trials trials;
    for (int trial = 0; trial < kMostTrials; ++trial) {
      if (trial > 0 && deadline.Passed()) break;
      FIRN_TRY(
          OneTrial(context.scene, call.call, work.work, *blocker, &trials));
    }
    context.report.AddRow(
        kTable, WithFigures(row_with(Verdict(trials)), trials.call_us));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureWaits(MeasureContext& context) {
  context.report.BeginTable(
      {kTable,
       absl::StrCat("does a call wait for what runs (at most ",
                    absl::FormatDuration(kBlockedFor), ") on the device?"),
       WithFigures({"what runs", "call", "waits"}, "us"),
       {}});
  const std::string& library = context.library;
  const int ordinal = context.scene.ordinal();
  FIRN_TRY_ASSIGN(const std::unique_ptr<Kernels> primary,
                  Kernels::Open(library, ordinal, ContextKind::kPrimary));
  std::unique_ptr<Kernels> second;
  size_t left = std::size(kWorks);
  size_t first_step = 0;
  for (const WorkCase& work : kWorks) {
    const Deadline share =
        context.deadline.Share(1.0 / static_cast<double>(left--));
    absl::Status status;
    if (work.work == Work::kSecondContext) {
      auto opened = Kernels::Open(library, ordinal, ContextKind::kSecond);
      status = opened.status();
      if (opened.ok()) second = *std::move(opened);
    }
    if (status.ok()) {
      status = MeasureWork(context, first_step, work, primary.get(),
                           second.get(), share);
    }
    first_step += std::size(kCalls);
    if (IsNotPossible(status)) {
      context.report.Note(absl::StrCat("waits: not possible: ", work.name, ": ",
                                       status.message()));
    } else if (!status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
