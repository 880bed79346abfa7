// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a GPU's MMU does on a bad access: the device is lost, the process is
// not. A SIGSEGV handler looks at faults of threads that run device work. A
// fault in a guarded region is answered with a scratch page and latches the
// device's sticky error; every other fault goes to the handler that was there
// before. And what a GPU's memory does in a forked child: it is not there.
//
// Scratch pages go when the work that made them ends: other devices, which have
// the same addresses, find their memory as it was. Until then they see the
// scratch page, and nothing can help that in one address space. But all it
// hides are bytes that the bad work wrote to and that nobody else may write at
// that address: scratch pages lie only over what is inaccessible or read-only,
// and over read-only memory they show what is in it, until written to. A write
// there of another device is not noticed meanwhile.

#ifndef FIRN_VMM_CPU_FAULT_GUARD_H_
#define FIRN_VMM_CPU_FAULT_GUARD_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/cpu/guarded_region.h"
#include "firn/vmm/cpu/sticky_error.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// A lock that a signal handler may take: it only spins and yields. Whoever
// holds it must neither touch device memory nor take another lock.
class ABSL_LOCKABLE SignalSafeLock {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (held_.exchange(true, std::memory_order_acquire)) LockSlowly();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    held_.store(false, std::memory_order_release);
  }

 private:
  void LockSlowly();

  std::atomic<bool> held_{false};
};

// The guarded regions of the devices of one driver. Whoever changes mappings
// inside a region holds `lock()` around the change and the note of it in the
// region, so that the handler can tell a real fault from one that a change just
// made obsolete.
class FaultGuard {
 public:
  // Device work of the calling thread runs guarded while a Scope lives. A bad
  // access latches kIllegalAddress in `error`, its device's. When it ends, no
  // scratch pages are left; what other bad work still needs is made again.
  class Scope {
   public:
    Scope(FaultGuard* guard, StickyError* error);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // Where the first bad access was; 0 if there was none.
    DevicePtr fault_address() const { return fault_address_; }

   private:
    friend class FaultGuard;
    FaultGuard* const guard_;
    StickyError* const error_;
    Scope* const outer_;
    DevicePtr fault_address_ = 0;
    // Where the last fault was that could have been a read of readable memory.
    DevicePtr last_retry_ = 0;
  };

  // Installs the process's handler if this is the first guard.
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  SignalSafeLock* lock() ABSL_LOCK_RETURNED(lock_) { return &lock_; }

  // `region` must stay until removed.
  void Add(GuardedRegion* region) ABSL_LOCKS_EXCLUDED(lock_);
  void Remove(GuardedRegion* region) ABSL_LOCKS_EXCLUDED(lock_);

  // For the signal handler: deals with a fault of the calling thread if it is
  // guarded, and says whether the access shall be tried again.
  static bool HandleFault(DevicePtr address);

  // For fork: holds all locks meanwhile; in the child no region stays mapped.
  static void PrepareFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

 private:
  // False when `address` is in no region or no scratch page can be had.
  bool Resolve(Scope* scope, DevicePtr address) ABSL_LOCKS_EXCLUDED(lock_);
  bool ResolveInRegion(Scope* scope, GuardedRegion* region, DevicePtr address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void PutBackScratch() ABSL_LOCKS_EXCLUDED(lock_);

  SignalSafeLock lock_;
  // The next of the list of all guards.
  FaultGuard* next_ = nullptr;
  GuardedRegion* regions_ ABSL_GUARDED_BY(lock_) = nullptr;
  int scratch_mappings_ ABSL_GUARDED_BY(lock_) = 0;
  // Written under the lock, read without.
  std::atomic<bool> has_scratch_{false};
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_FAULT_GUARD_H_
