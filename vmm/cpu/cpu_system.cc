// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_system.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/cpu/ghost_storage.h"
#include "firn/vmm/cpu/real_storage.h"
#include "firn/vmm/driver_status.h"

namespace firn::cpu {
namespace {

MemoryOptions MemoryOptionsOf(const CpuDriverOptions& options,
                              uint64_t device_granules) {
  MemoryOptions memory;
  memory.granularity_bytes = options.granularity_bytes;
  memory.device_granules = device_granules;
  memory.device_count = options.device_count;
  memory.peer_access = options.peer_access;
  memory.max_handles = options.max_handles;
  memory.max_mappings = options.max_mappings;
  memory.defect = options.defect;
  return memory;
}

std::string NameOf(const char* name, const WorkOrder& order) {
  return absl::StrCat(name, " at position ", order.position, " of stream ",
                      order.stream_id);
}

std::string WhyNot(const char* name, const WorkOrder& order,
                   const Verdict& verdict) {
  return absl::StrCat("the ", NameOf(name, order), ": ", verdict.rule);
}

}  // namespace

static_assert(StreamSet::kMaxContexts == kMaxCpuContexts);

CpuSystem::CpuSystem(CpuDriverOptions options, uint64_t device_granules,
                     std::unique_ptr<Backing> backing)
    : options_(std::move(options)),
      drains_((options_.sync == CpuSync::kDraining &&
               options_.defect != CpuDefect::kDrainSkipped) ||
              options_.defect == CpuDefect::kUnmapWaitsInLazy),
      memory_(MemoryOptionsOf(options_, device_granules),
              MakeStorage(std::move(backing))),
      coherence_(options_.defect),
      streams_(MakeStreamOptions()) {}

CpuSystem::~CpuSystem() {
  // What is left is parked, and what it waits for will never be written.
  if (!streams_.DrainParked().empty()) shutting_down_.store(true);
}

StreamSetOptions CpuSystem::MakeStreamOptions() {
  StreamSetOptions streams;
  streams.device_count = options_.device_count;
  // Without contents work takes no time.
  streams.inline_when_idle = !real();
  streams.parked_timeout = options_.parked_timeout;
  streams.deadlock_timeout = options_.deadlock_timeout;
  // Work notes what was unmapped before it was queued.
  streams.stamp = [this] { return memory_.unmap_epoch(); };
  streams.on_retired = [this](uint64_t id) { coherence_.ForgetStream(id); };
  streams.is_lost = [this](int device) { return Abandoned(device); };
  streams.defect = options_.defect;
  return streams;
}

std::unique_ptr<Storage> CpuSystem::MakeStorage(
    std::unique_ptr<Backing> backing) {
  if (backing == nullptr) return std::make_unique<GhostStorage>();
  return std::make_unique<RealStorage>(
      options_.granularity_bytes, std::move(backing), &guard_,
      [this] { return streams_.GetWorkInFlight(); });
}

Verdict CpuSystem::RefuseLost(int device) {
  StickyError& health = health_[static_cast<size_t>(device)];
  const DriverResult error = health.get();
  if (options_.defect == CpuDefect::kStickyErrorForgotten) health.Forget();
  // Not for a rule that this call breaks.
  return Refuse(error, nullptr);
}

Verdict CpuSystem::Drain(int device, DriverCall call) {
  const std::string stuck = streams_.Drain();
  if (!stuck.empty()) {
    Lose(device, DriverResult::kLaunchTimeout,
         absl::StrCat("deadlock in ", DriverCallName(call),
                      ": the call waits for work that does not end: ", stuck));
  }
  return CheckHealth(device);
}

void CpuSystem::ForgetFreed() {
  for (const uint64_t memory_id : memory_.TakeFreedMemory()) {
    coherence_.Forget(memory_id);
  }
}

Verdict CpuSystem::Enqueue(const StreamContext& context, StreamHandle stream,
                           const char* name, std::vector<AccessRange> ranges,
                           std::function<void()> body, bool tells_host) {
  StreamWork work;
  work.name = name;
  work.tells_host = tells_host;
  work.run = [this, device = context.device, name, ranges = std::move(ranges),
              body = std::move(body)](const WorkOrder& order) {
    Run(device, name, ranges, order, body);
  };
  return streams_.Enqueue(context.id, stream, std::move(work));
}

Verdict CpuSystem::EnqueueWait(const StreamContext& context,
                               StreamHandle stream, const AccessRange& range,
                               std::function<bool()> satisfied,
                               std::string waits_for) {
  const int device = context.device;
  const auto check = [this, device, range](uint64_t queued_epoch) {
    return memory_.CheckAccess(device, {&range, 1}, queued_epoch,
                               /*physical=*/nullptr);
  };
  constexpr const char* kName = "value wait";
  StreamWork work;
  work.name = kName;
  work.waits_for = std::move(waits_for);
  work.ready = [this, device, check,
                satisfied = std::move(satisfied)](uint64_t queued_epoch) {
    // What can never be satisfied waits no longer: run() says why.
    if (Abandoned(device) || !check(queued_epoch).ok()) return true;
    FaultGuard::Scope scope(&guard_, &health_[static_cast<size_t>(device)]);
    const bool is_satisfied = satisfied();
    if (scope.fault_address() == 0) return is_satisfied;
    // Unmapped just now.
    ReportFault(device, kName, scope.fault_address());
    return true;
  };
  work.run = [this, device, check](const WorkOrder& order) {
    if (Abandoned(device)) return;
    const Verdict verdict = check(order.queued_stamp);
    if (!verdict.ok()) {
      Lose(device, DriverResult::kIllegalAddress,
           WhyNot(kName, order, verdict));
    }
  };
  return streams_.Enqueue(context.id, stream, std::move(work));
}

void CpuSystem::Run(int device, const char* name,
                    const std::vector<AccessRange>& ranges,
                    const WorkOrder& order, const std::function<void()>& body) {
  // A lost device runs nothing more.
  if (Abandoned(device)) return;
  // Without contents no byte can be stale.
  const bool checks_coherence = real() && options_.check_coherence;
  std::vector<PhysicalRange> physical;
  const Verdict before =
      memory_.CheckAccess(device, ranges, order.queued_stamp,
                          checks_coherence ? &physical : nullptr);
  if (!before.ok()) {
    Lose(device, DriverResult::kIllegalAddress, WhyNot(name, order, before));
    return;
  }
  if (!physical.empty()) {
    const std::string conflict = coherence_.Begin(order, name, physical);
    if (!conflict.empty()) {
      Lose(device, DriverResult::kLaunchFailed, conflict);
      return;
    }
  }
  if (!real()) return;
  {
    FaultGuard::Scope scope(&guard_, &health_[static_cast<size_t>(device)]);
    body();
    if (scope.fault_address() != 0) {
      ReportFault(device, NameOf(name, order), scope.fault_address());
      return;
    }
  }
  // What is unmapped under running work may not fault: something else may be
  // mapped there by now.
  const Verdict after =
      memory_.CheckAccess(device, ranges, order.queued_stamp, nullptr);
  if (!after.ok()) {
    Lose(device, DriverResult::kIllegalAddress, WhyNot(name, order, after));
  }
}

void CpuSystem::Lose(int device, DriverResult error, absl::string_view why) {
  const std::string loss = absl::StrCat(DriverResultName(error), ": ", why);
  {
    // Whoever meets the error finds the loss.
    MutexLock lock(&report_mutex_);
    if (!health_[static_cast<size_t>(device)].Latch(error)) return;
    NoteLoss(device, loss);
  }
  ReportLoss(device, loss);
}

void CpuSystem::ReportFault(int device, absl::string_view who,
                            DevicePtr address) {
  // The handler latched the error, unless there was one before.
  const DriverResult error = health_[static_cast<size_t>(device)].get();
  if (error != DriverResult::kIllegalAddress) return;
  const std::string loss = absl::StrCat(
      DriverResultName(error), ": the ", who, " accessed 0x",
      absl::Hex(address), ", which is not mapped or not accessible so");
  {
    MutexLock lock(&report_mutex_);
    NoteLoss(device, loss);
  }
  ReportLoss(device, loss);
}

void CpuSystem::NoteLoss(int device, absl::string_view loss) {
  std::string& first = losses_[static_cast<size_t>(device)];
  if (first.empty()) first = std::string(loss);
}

void CpuSystem::ReportLoss(int device, absl::string_view loss) {
  std::string line = Line(device, absl::StrCat("the device is lost: ", loss));
  if (!options_.report) std::fprintf(stderr, "%s\n", line.c_str());
  Publish(std::move(line));
}

std::string CpuSystem::loss(int device) {
  if (fork_watch_.in_child()) return "";
  const DriverResult error = health_[static_cast<size_t>(device)].get();
  MutexLock lock(&report_mutex_);
  const std::string& loss = losses_[static_cast<size_t>(device)];
  if (!loss.empty() || error == DriverResult::kSuccess) return loss;
  return absl::StrCat(DriverResultName(error),
                      ": by work that has not ended yet");
}

void CpuSystem::ReportMisuse(int device, const DriverCallArgs& args,
                             const Verdict& verdict) {
  // Whoever held a lock when the parent forked does not exist here.
  if (fork_watch_.in_child()) return;
  const Misuse misuse{device, args, verdict};
  if (options_.report) options_.report(Line(misuse));
  MutexLock lock(&report_mutex_);
  last_misuse_ = misuse;
  last_line_.clear();
}

void CpuSystem::ReportMisuse(int device, absl::string_view call,
                             const Verdict& verdict) {
  Publish(
      Line(device, absl::StrCat(call, " = ", DriverResultName(verdict.result),
                                ": ", verdict.rule)));
}

void CpuSystem::Publish(std::string line) {
  if (fork_watch_.in_child()) return;
  if (options_.report) options_.report(line);
  MutexLock lock(&report_mutex_);
  last_line_ = std::move(line);
}

std::string CpuSystem::last_report() {
  if (fork_watch_.in_child()) return "";
  MutexLock lock(&report_mutex_);
  if (!last_line_.empty()) return last_line_;
  return last_misuse_.has_value() ? Line(*last_misuse_) : "";
}

std::string CpuSystem::Line(int device, absl::string_view text) const {
  return absl::StrCat(options_.device_name, ", device ", device, ": ", text);
}

std::string CpuSystem::Line(const Misuse& misuse) const {
  return Line(misuse.device,
              absl::StrCat(FormatDriverCall(misuse.args), " = ",
                           DriverResultName(misuse.verdict.result), ": ",
                           misuse.verdict.rule));
}

}  // namespace firn::cpu
