// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/faulting_driver.h"

#include <cstddef>

namespace firn {

void FaultingDriver::FailNth(uint64_t n, DriverResult result) {
  Fault fault;
  fault.calls_before = n;
  fault.result = result;
  Add(fault);
}

void FaultingDriver::FailFrom(uint64_t n, DriverResult result) {
  Fault fault;
  fault.calls_before = n;
  fault.lasting = true;
  fault.result = result;
  Add(fault);
}

void FaultingDriver::FailNthOf(DriverCall kind, uint64_t n,
                               DriverResult result) {
  Fault fault;
  fault.kind = kind;
  fault.calls_before = n;
  fault.result = result;
  Add(fault);
}

void FaultingDriver::FailRandomly(double probability, uint64_t seed,
                                  DriverResult result) {
  Fault fault;
  fault.lasting = true;
  fault.probability = probability;
  fault.draws = UniformDraws(seed);
  fault.result = result;
  Add(fault);
}

void FaultingDriver::FailRandomlyOf(DriverCall kind, double probability,
                                    uint64_t seed, DriverResult result) {
  Fault fault;
  fault.kind = kind;
  fault.lasting = true;
  fault.probability = probability;
  fault.draws = UniformDraws(seed);
  fault.result = result;
  Add(fault);
}

void FaultingDriver::Reset() {
  const MutexLock lock(&mutex_);
  faults_.clear();
  calls_ = 0;
  failures_ = 0;
}

uint64_t FaultingDriver::calls() const {
  const MutexLock lock(&mutex_);
  return calls_;
}

uint64_t FaultingDriver::failures() const {
  const MutexLock lock(&mutex_);
  return failures_;
}

void FaultingDriver::Add(const Fault& fault) {
  const MutexLock lock(&mutex_);
  faults_.push_back(fault);
}

bool FaultingDriver::Strikes(Fault* fault, DriverCall kind) {
  if (fault->kind.has_value() && *fault->kind != kind) return false;
  if (fault->calls_before > 0) {
    --fault->calls_before;
    return false;
  }
  return fault->probability >= 1 || fault->draws.Next() < fault->probability;
}

DriverResult FaultingDriver::Admit(DriverCall kind) {
  const MutexLock lock(&mutex_);
  ++calls_;
  DriverResult result = DriverResult::kSuccess;
  // Every order counts the call, also those that another one overrides.
  for (size_t i = 0; i < faults_.size();) {
    Fault& fault = faults_[i];
    if (!Strikes(&fault, kind)) {
      ++i;
      continue;
    }
    if (result == DriverResult::kSuccess) result = fault.result;
    if (fault.lasting) {
      ++i;
    } else {
      faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (result != DriverResult::kSuccess) ++failures_;
  return result;
}

DriverResult FaultingDriver::Around(const DriverCallArgs& args,
                                    absl::FunctionRef<DriverResult()> call) {
  const DriverResult result = Admit(args.call);
  return result == DriverResult::kSuccess ? call() : result;
}

}  // namespace firn
