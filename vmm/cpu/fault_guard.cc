// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/fault_guard.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/segv_handler.h"

namespace firn::cpu {
namespace {

// Past so many scratch mappings one takes the place of a whole kernel mapping,
// so that a runaway kernel cannot use up those of the process.
constexpr int kMaxScratchMappings = 256;

// Needs no set-up on first use by a thread, as a signal handler requires.
__attribute__((tls_model(
    "initial-exec"))) thread_local FaultGuard::Scope* running_scope = nullptr;

// All guards, for fork. Constant-initialised and never destroyed: a fork may
// come at any time.
SignalSafeLock guards_lock;
FaultGuard* all_guards ABSL_GUARDED_BY(guards_lock) = nullptr;

}  // namespace

void SignalSafeLock::LockSlowly() {
  do {
    syscall(SYS_sched_yield);
  } while (held_.exchange(true, std::memory_order_acquire));
}

FaultGuard::Scope::Scope(FaultGuard* guard, StickyError* error)
    : guard_(guard), error_(error), outer_(running_scope) {
  running_scope = this;
  // The handler runs on this thread: only the compiler must keep the order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

FaultGuard::Scope::~Scope() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  running_scope = outer_;
  if (guard_->has_scratch_.load(std::memory_order_relaxed)) {
    guard_->PutBackScratch();
  }
}

FaultGuard::FaultGuard() {
  InstallSegvHandler(&FaultGuard::HandleFault);
  [[maybe_unused]] static const int registered =
      pthread_atfork(&PrepareFork, &AfterForkInParent, &AfterForkInChild);
  guards_lock.Lock();
  next_ = all_guards;
  all_guards = this;
  guards_lock.Unlock();
}

FaultGuard::~FaultGuard() {
  guards_lock.Lock();
  FaultGuard** link = &all_guards;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  guards_lock.Unlock();
}

// The analysis cannot follow locks that are held across functions, nor as many
// locks as there are guards.
void FaultGuard::PrepareFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  guards_lock.Lock();
  for (FaultGuard* guard = all_guards; guard != nullptr; guard = guard->next_) {
    guard->lock_.Lock();
  }
}

void FaultGuard::AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (FaultGuard* guard = all_guards; guard != nullptr; guard = guard->next_) {
    guard->lock_.Unlock();
  }
  guards_lock.Unlock();
}

void FaultGuard::AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (FaultGuard* guard = all_guards; guard != nullptr; guard = guard->next_) {
    for (const GuardedRegion* region = guard->regions_; region != nullptr;
         region = region->next_) {
      MapInaccessible(region->base(), region->bytes());
    }
  }
  // No device works here: if the fork was in the middle of work, what faults is
  // the child's own.
  running_scope = nullptr;
  AfterForkInParent();
}

void FaultGuard::Add(GuardedRegion* region) {
  lock_.Lock();
  region->next_ = regions_;
  regions_ = region;
  lock_.Unlock();
}

void FaultGuard::Remove(GuardedRegion* region) {
  lock_.Lock();
  GuardedRegion** link = &regions_;
  while (*link != region) link = &(*link)->next_;
  *link = region->next_;
  lock_.Unlock();
}

bool FaultGuard::HandleFault(DevicePtr address) {
  Scope* const scope = running_scope;
  return scope != nullptr && scope->guard_->Resolve(scope, address);
}

bool FaultGuard::Resolve(Scope* scope, DevicePtr address) {
  lock_.Lock();
  GuardedRegion* region = regions_;
  while (region != nullptr && !region->Contains(address)) {
    region = region->next_;
  }
  const bool resolved =
      region != nullptr && ResolveInRegion(scope, region, address);
  lock_.Unlock();
  return resolved;
}

bool FaultGuard::ResolveInRegion(Scope* scope, GuardedRegion* region,
                                 DevicePtr address) {
  const uint64_t granule = region->GranuleOf(address);
  const bool is_scratch = region->is_scratch(granule);
  const AccessFlags access = region->access(granule);
  // Access was given between the fault and now.
  if (access == AccessFlags::kReadWrite) return true;
  // A scratch page came between the fault and now. Or it is a write, or a read
  // that came just before access was given. Tried again, a read succeeds; a
  // write is back here at once.
  if ((is_scratch || access == AccessFlags::kRead) &&
      scope->last_retry_ != address) {
    scope->last_retry_ = address;
    return true;
  }
  scope->error_->Latch(DriverResult::kIllegalAddress);
  if (scope->fault_address_ == 0) scope->fault_address_ = address;
  const bool row = scratch_mappings_ >= kMaxScratchMappings;
  if (!region->MapScratchAt(granule, row)) return false;
  ++scratch_mappings_;
  has_scratch_.store(true, std::memory_order_relaxed);
  return true;
}

void FaultGuard::PutBackScratch() {
  lock_.Lock();
  bool complete = true;
  for (GuardedRegion* region = regions_; region != nullptr;
       region = region->next_) {
    if (!region->PutBackScratch()) complete = false;
  }
  if (complete) {
    scratch_mappings_ = 0;
    has_scratch_.store(false, std::memory_order_relaxed);
  }
  lock_.Unlock();
}

}  // namespace firn::cpu
