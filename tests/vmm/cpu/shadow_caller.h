// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread that makes random calls to a CPU driver, right ones and wrong ones,
// and holds every answer and all contents against its shadow model.

#ifndef FIRN_TESTS_VMM_CPU_SHADOW_CALLER_H_
#define FIRN_TESTS_VMM_CPU_SHADOW_CALLER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "tests/support/small_random.h"
#include "tests/vmm/cpu/shadow_model.h"

namespace firn::cpu_testing {

// Thread safety: none, but several callers may share a driver and a mailbox.
class ShadowCaller {
 public:
  // Does not own what it is given. With `syncs_before_unmap`, waits for its own
  // work before it changes mappings or access, as is right on any driver.
  ShadowCaller(CpuDriver* driver, uint64_t granule_bytes, uint64_t seed,
               bool syncs_before_unmap, ShadowMailbox* mailbox);

  // Makes at least `calls` calls. Stops at the first wrong answer.
  void Run(uint64_t calls);
  // Gives everything back.
  void Finish();

  uint64_t calls() const { return calls_; }
  uint64_t refusals() const { return refusals_; }
  // Kernels that looked at contents.
  uint64_t looks() const { return looks_; }
  // Empty, or the first wrong answer.
  const char* failure() const {
    return failure_ != nullptr      ? failure_
           : wrong_contents_.load() ? "contents are wrong"
                                    : "";
  }

 private:
  using Reservation = std::unique_ptr<ShadowReservation>;
  using Handle = std::shared_ptr<ShadowHandle>;
  struct Place {
    ShadowReservation* reservation = nullptr;
    uint64_t first = 0;
    uint64_t count = 0;
    DevicePtr address = 0;
  };

  // Each makes one call, or none where there is nothing to call it on.
  void Reserve();
  void FreeReservation();
  void Create();
  void Release();
  void ReleaseDeadHandle();
  void Map();
  void SetAccess();
  void GetAccess();
  void Unmap();
  void Retain();
  void Export();
  void Import();
  void WriteByKernel();
  void LookByKernel();
  void Fill();
  void Copy();
  void AskForAddressRange();
  void Synchronize();

  // Counts the call; records `what` unless the answer is as expected.
  bool Expect(DriverResult answer, DriverResult expected, const char* what);
  bool ExpectIf(bool right, DriverResult answer, const char* what) {
    return Expect(answer,
                  right ? DriverResult::kSuccess : DriverResult::kInvalidValue,
                  what);
  }
  uint64_t Below(uint64_t limit) {
    return random_.Below(static_cast<uint32_t>(limit));
  }
  ShadowReservation* AnyReservation();
  // A row of granules somewhere, more often whole mappings than not.
  Place AnyPlace();
  // A mapped granule; a null reservation when none was found quickly.
  Place AnyMapped();
  Handle AnyLiveHandle();
  DevicePtr AddressOf(const ShadowReservation& reservation,
                      uint64_t granule) const {
    return reservation.base + granule * granule_bytes_;
  }
  // Takes dead handles that nothing is mapped to off the list.
  void ForgetUnused();
  void SyncIfNeeded();

  CpuDriver* const driver_;
  const uint64_t granule_bytes_;
  const bool syncs_before_unmap_;
  ShadowMailbox* const mailbox_;
  testing::SmallRandom random_;
  StreamHandle stream_ = nullptr;
  std::vector<Reservation> reservations_;
  std::vector<Handle> handles_;
  uint64_t calls_ = 0;
  uint64_t refusals_ = 0;
  uint64_t looks_ = 0;
  uint64_t queued_ = 0;  // since the last wait
  const char* failure_ = nullptr;
  std::atomic<bool> wrong_contents_{false};
};

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_SHADOW_CALLER_H_
