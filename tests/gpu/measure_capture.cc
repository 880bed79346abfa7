// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of one thread during a capture of another: are they refused, and does
// the capture survive them?

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "tests/gpu/cpu_twin.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"
#include "tests/support/ledger_driver.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "capture";

// What the calls are about: made before the capture begins.
struct Things {
  DevicePtr reserved = 0;     // two granules, unmapped
  DevicePtr mapped = 0;       // one granule, accessible
  DevicePtr captured = 0;     // one granule, that the capture is about
  DevicePtr to_free = 0;      // a reservation of one granule
  PhysicalHandle handle = 0;  // mapped nowhere
  StreamHandle capturing = nullptr;
  StreamHandle other = nullptr;
  EventHandle event = nullptr;  // recorded on `other`
};

struct CaptureCall {
  const char* name;
  DriverResult (*make)(const Scene& scene, const Things& things);
};

const CaptureCall kCalls[] = {
    {"cuMemAddressReserve",
     [](const Scene& scene, const Things&) {
       DevicePtr address = 0;
       return scene.Reserve(&address, 1);
     }},
    {"cuMemAddressFree",
     [](const Scene& scene, const Things& things) {
       return scene.Free(things.to_free, 1);
     }},
    {"cuMemCreate",
     [](const Scene& scene, const Things&) {
       PhysicalHandle handle = 0;
       return scene.Create(&handle);
     }},
    {"cuMemRelease",
     [](const Scene& scene, const Things& things) {
       return scene.driver().MemRelease(things.handle);
     }},
    {"cuMemMap",
     [](const Scene& scene, const Things& things) {
       return scene.Map(things.reserved, things.handle);
     }},
    {"cuMemSetAccess",
     [](const Scene& scene, const Things& things) {
       return scene.SetAccess(things.mapped, 1);
     }},
    {"cuMemUnmap",
     [](const Scene& scene, const Things& things) {
       return scene.Unmap(things.mapped);
     }},
    {"cuMemUnmap of the memory captured",
     [](const Scene& scene, const Things& things) {
       return scene.Unmap(things.captured);
     }},
    {"cuMemGetAccess",
     [](const Scene& scene, const Things& things) {
       AccessFlags flags = AccessFlags::kNone;
       const MemLocation location = scene.Location();
       return scene.driver().MemGetAccess(&flags, &location, things.mapped);
     }},
    {"cuMemRetainAllocationHandle",
     [](const Scene& scene, const Things& things) {
       PhysicalHandle handle = 0;
       return scene.driver().MemRetainAllocationHandle(&handle, things.mapped);
     }},
    {"cuMemGetInfo",
     [](const Scene& scene, const Things&) {
       size_t free_bytes = 0;
       size_t total_bytes = 0;
       return scene.driver().MemGetInfo(&free_bytes, &total_bytes);
     }},
    {"cuMemcpyDtoDAsync on another stream",
     [](const Scene& scene, const Things& things) {
       return scene.driver().MemcpyDtoDAsync(
           things.mapped, things.mapped + 4096, 4096, things.other);
     }},
    {"cuEventRecord on another stream",
     [](const Scene& scene, const Things& things) {
       return scene.driver().EventRecord(things.event, things.other);
     }},
    {"cuEventQuery",
     [](const Scene& scene, const Things& things) {
       return scene.driver().EventQuery(things.event);
     }},
    {"cuStreamQuery of another stream",
     [](const Scene& scene, const Things& things) {
       return scene.driver().StreamQuery(things.other);
     }},
    {"cuStreamSynchronize of another stream",
     [](const Scene& scene, const Things& things) {
       return scene.driver().StreamSynchronize(things.other);
     }},
};

absl::Status MakeThings(const Scene& scene, Things* things) {
  Driver& driver = scene.driver();
  FIRN_TRY_CALL("cuMemAddressReserve", scene.Reserve(&things->reserved, 2));
  FIRN_TRY_CALL("cuMemAddressReserve", scene.Reserve(&things->to_free, 1));
  for (DevicePtr* const address : {&things->mapped, &things->captured}) {
    PhysicalHandle handle = 0;
    FIRN_TRY_CALL("cuMemAddressReserve", scene.Reserve(address, 1));
    FIRN_TRY_CALL("cuMemCreate", scene.Create(&handle));
    FIRN_TRY_CALL("cuMemMap", scene.Map(*address, handle));
    FIRN_TRY_CALL("cuMemSetAccess", scene.SetAccess(*address, 1));
  }
  FIRN_TRY_CALL("cuMemCreate", scene.Create(&things->handle));
  for (StreamHandle* const stream : {&things->capturing, &things->other}) {
    FIRN_TRY_CALL("cuStreamCreate",
                  driver.StreamCreate(stream, kStreamNonBlocking));
  }
  FIRN_TRY_CALL("cuEventCreate",
                driver.EventCreate(&things->event, kEventDisableTiming));
  FIRN_TRY_CALL("cuEventRecord",
                driver.EventRecord(things->event, things->other));
  return ToStatus(driver.StreamSynchronize(things->other),
                  "cuStreamSynchronize");
}

struct Finding {
  DriverResult call = DriverResult::kUnknown;
  bool survives = false;
};
bool operator==(const Finding& a, const Finding& b) {
  return a.call == b.call && a.survives == b.survives;
}

// One call of a thread with `caller_mode` while this thread captures.
absl::StatusOr<Finding> Try(const Scene& scene, CaptureMode capture_mode,
                            CaptureMode caller_mode, const CaptureCall& call) {
  testing::LedgerDriver ledger(&scene.driver());
  const Scene own(&ledger, scene.ordinal(), scene.granule_bytes());
  Things things;
  absl::Status made = MakeThings(own, &things);
  Finding finding;
  if (made.ok()) {
    made = ToStatus(ledger.StreamBeginCapture(things.capturing, capture_mode),
                    "cuStreamBeginCapture");
  }
  if (made.ok()) {
    made =
        ToStatus(ledger.MemsetD8Async(things.captured, 1, scene.granule_bytes(),
                                      things.capturing),
                 "cuMemsetD8Async");
    std::thread caller([&] {
      CaptureMode mode = caller_mode;
      (void)ledger.ThreadExchangeStreamCaptureMode(&mode);
      finding.call = call.make(own, things);
    });
    caller.join();
    GraphHandle graph = nullptr;
    finding.survives = ledger.StreamEndCapture(things.capturing, &graph) ==
                           DriverResult::kSuccess &&
                       graph != nullptr;
  }
  (void)ledger.CleanUp();
  FIRN_TRY(made);
  return finding;
}

const char* ModeName(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kGlobal:
      return "global";
    case CaptureMode::kThreadLocal:
      return "thread local";
    case CaptureMode::kRelaxed:
      return "relaxed";
  }
  return "unknown";
}

Row ToRow(CaptureMode capture_mode, CaptureMode caller_mode,
          const CaptureCall& call, const Finding& cpu, const Finding& device) {
  return {TextCell(ModeName(capture_mode)),
          TextCell(ModeName(caller_mode)),
          TextCell(call.name),
          TextCell(DriverResultName(device.call)),
          TextCell(device.survives ? "survives" : "is lost"),
          TextCell(DriverResultName(cpu.call)),
          TextCell(cpu.survives ? "survives" : "is lost"),
          TextCell(cpu == device ? "" : "DIFFERS")};
}

}  // namespace

absl::Status MeasureCapture(MeasureContext& context) {
  context.report.BeginTable(
      {kTable,
       "calls of a thread during another thread's capture",
       {"capture", "caller", "call", "this device", "the capture", "CPU driver",
        "its capture", "differs"},
       {}});
  FIRN_TRY_ASSIGN(const CpuTwin twin, CpuTwin::Create(context.scene));
  size_t step = 0;
  for (const CaptureMode capture_mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal}) {
    for (const CaptureMode caller_mode :
         {CaptureMode::kGlobal, CaptureMode::kThreadLocal,
          CaptureMode::kRelaxed}) {
      for (const CaptureCall& call : kCalls) {
        const size_t own_step = step++;
        if (own_step < context.first_step) continue;
        if (context.deadline.Passed()) {
          context.report.Note("capture: not all was tried: out of time");
          return absl::OkStatus();
        }
        FIRN_TRY_ASSIGN(const Finding cpu,
                        Try(twin.scene(), capture_mode, caller_mode, call));
        context.report.BeginStep(own_step, call.name);
        Row lost = ToRow(capture_mode, caller_mode, call, cpu, Finding());
        lost[3] = TextCell("the process dies or hangs");
        context.report.RowIfLost(kTable, lost);
        FIRN_TRY_ASSIGN(const Finding device,
                        Try(context.scene, capture_mode, caller_mode, call));
        context.report.AddRow(
            kTable, ToRow(capture_mode, caller_mode, call, cpu, device));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
