// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CUDA device without a GPU: real memory, a real MMU, streams that are
// queues run by worker threads. Stricter than any GPU: every misuse of the
// virtual-memory calls is refused with the error code an NVIDIA driver gives.

#ifndef FIRN_VMM_CPU_CPU_DRIVER_H_
#define FIRN_VMM_CPU_CPU_DRIVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "firn/vmm/cpu/access_range.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/driver.h"

namespace firn {

enum class CpuStorage {
  kReal,   // contents exist
  kGhost,  // bookkeeping only: a device of any size on any machine
};

// What MemUnmap and MemSetAccess do about work in flight. A real driver does
// something between the two, and does not say what: code that is right under
// both is right.
enum class CpuSync {
  kLazy,      // they take effect at once
  kDraining,  // they wait for all work queued before on the device
};

// Most devices of one driver.
inline constexpr int kMaxCpuDevices = 8;
// Most contexts of one driver at a time, the first ones of its devices
// included.
inline constexpr int kMaxCpuContexts = 64;

struct CpuDriverOptions {
  CpuStorage storage = CpuStorage::kReal;
  // 1 to kMaxCpuDevices; more than one for CreateDevices only.
  int device_count = 1;
  // Whether the devices can be given access to each other's memory.
  bool peer_access = true;
  // Whether they have virtual memory management. Off: the attributes say so,
  // its calls are kNotSupported, and MemAlloc is the one way to memory.
  bool virtual_memory = true;
  // What each device has; 0 means its share of what the host has free (real) or
  // 80 GiB (ghost). Rounded down to whole granules.
  uint64_t device_bytes = 0;
  // Minimum and recommended granularity: a power of two, a multiple of the
  // host's page size.
  uint64_t granularity_bytes = uint64_t{2} << 20;
  // Fill created memory with kCpuPoisonWord, so that code that relies on what
  // was there before fails (real storage only).
  bool poison = true;
  // Most handles (MemCreate), and most accessible mappings (MemSetAccess), at a
  // time; one more is kOutOfMemory. The default for mappings is where an H100
  // was seen to stop; with real storage the kernel's limit on a process's
  // mappings comes first, and is kept in the same way.
  uint64_t max_handles = uint64_t{1} << 24;
  uint64_t max_mappings = 516'096;

  CpuSync sync = CpuSync::kLazy;
  // kDraining: once nothing runs and all work waits for values, or for work
  // that does, for so long, the calling thread is taken to be the one that
  // would write them. The deadlock is reported with the streams and what they
  // wait for, the device is lost, and the call returns kLaunchTimeout.
  absl::Duration parked_timeout = absl::Milliseconds(500);
  // kDraining: likewise, once work has been running and none has ended for so
  // long: a kernel that spins looks like this.
  absl::Duration deadlock_timeout = absl::Seconds(10);

  // Report reads through one address of what unordered work writes through
  // another; the device is lost (kLaunchFailed). Real storage only.
  bool check_coherence = true;
  // Count the calls that change handles, mappings and access among those that
  // must not be made while a capture forbids unsafe calls. Nothing says
  // whether a real driver does.
  bool unsafe_vmm_in_capture = true;

  // Called with one line for each refused call (the call, its arguments, the
  // result and the rule) and for each loss of a device; from any thread, also
  // from workers; must not call the driver. Empty: losses go to stderr.
  std::function<void(absl::string_view line)> report;
  std::string device_name = "firn CPU driver";
  // For tests of tests.
  CpuDefect defect = CpuDefect::kNone;
};

// What fresh memory of a poisoned device holds, over and over: not a number as
// float, double, half or bfloat16, and no likely integer.
inline constexpr uint32_t kCpuPoisonWord = 0xFFFBA5DB;

// A range of device addresses that a kernel says it reads or writes.
using KernelRange = cpu::AccessRange;

// One device, in its first context: see CreateContext. Copies from and to host
// memory are asynchronous throughout: the host buffer must stay until the copy
// is done. A copy or fill with a bad address, and a copy whose two ranges
// overlap, is refused with kInvalidValue; if an address turns bad before the
// work runs, the device is lost, and so it is if the range was unmapped
// meanwhile, whatever is mapped there now. Destruction of the last device waits
// for all work, gives up what waits for a value that nobody writes, and unmaps
// everything. In a forked child all calls return kDeinitialized and the
// devices' memory does not exist.
class CpuDriver : public Driver {
 public:
  // A driver with one device. InvalidArgument names the option that is wrong.
  static absl::StatusOr<std::unique_ptr<CpuDriver>> Create(
      CpuDriverOptions options);
  // A driver with `device_count` devices, by ordinal. They share addresses and
  // handles, and wait for each other's events, as the devices of a process do.
  static absl::StatusOr<std::vector<std::unique_ptr<CpuDriver>>> CreateDevices(
      CpuDriverOptions options);

  // Another driver of the same device, whose calls act in one more context of
  // it: streams and events that it creates, its legacy stream (nullptr) and
  // what its CtxSynchronize waits for are its own. Streams of all contexts of
  // the device may be named in its calls, which then act in the stream's own
  // context; an event is recorded on streams of the event's context only.
  // Memory, access to it, and the loss of the device are the device's.
  // Destroying it waits for its work, for ever if that waits for a value that
  // nobody writes; its streams and events are gone from then on. It must not be
  // destroyed while another thread calls it. ResourceExhausted: there are
  // kMaxCpuContexts. FailedPrecondition: the driver cannot be called now, or
  // the device is lost.
  virtual absl::StatusOr<std::unique_ptr<CpuDriver>> CreateContext() = 0;
  // The number of the context that calls act in: the ordinal of the device for
  // its first one, and never that of another context of the driver.
  virtual int context() const = 0;
  // The number of the context that owns a stream, of this device or another.
  virtual DriverResult StreamGetContext(StreamHandle stream, int* context) = 0;

  // Queues `body` on `stream`, to be run by its worker with direct access to
  // the device's addresses.
  // The ranges are checked when it is about to start and once it has ended: if
  // one is not mapped and accessible, or was unmapped in between, the device is
  // lost (kIllegalAddress from then on); at the start, the body does not run.
  // While it runs, an access to memory of a reservation that is not mapped or
  // not accessible, declared or not, loses the device too; the body goes on
  // over a scratch page. (With several devices, what only another device may
  // access is found by the declared ranges alone.) An access outside every
  // reservation is an ordinary segmentation fault.
  // Ghost storage: the ranges are checked, the body is not run.
  virtual DriverResult LaunchKernel(StreamHandle stream,
                                    std::vector<KernelRange> ranges,
                                    std::function<void()> body) = 0;

  // The last line reported (see CpuDriverOptions::report) for this driver;
  // empty if there was none.
  virtual std::string last_report() const = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_CPU_CPU_DRIVER_H_
