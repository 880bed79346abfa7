// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A scope has launched work that is held up, and the gate is to be closed.

#ifndef FIRN_TESTS_VMM_LAUNCH_GATE_DRAIN_H_
#define FIRN_TESTS_VMM_LAUNCH_GATE_DRAIN_H_

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/launch_gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/launch_gate_scene.h"

namespace firn::testing {

inline constexpr uint8_t kTouched = 0x5a;

// Lets held work go on after a moment, from another thread.
class ReleaseSoon {
 public:
  explicit ReleaseSoon(HeldStream* held)
      : thread_([held] {
          absl::SleepFor(kMoment);
          held->Release();
        }) {}
  ~ReleaseSoon() { thread_.join(); }

 private:
  std::thread thread_;
};

// What a scope has launched is in flight; then the gate is to be closed.
class LaunchGateDrainTest : public ::testing::Test {
 protected:
  LaunchGate& gate() { return scene_->gate(); }
  Driver* device() { return scene_->device(); }

  // Holds the stream and touches granule 0 behind that, in a scope that names
  // `named`.
  void LaunchHeld(HeldStream* held, absl::Span<const StreamHandle> named) {
    const LaunchGate::Scope scope(&gate(), named);
    ASSERT_EQ(held->Hold(), DriverResult::kSuccess);
    ASSERT_EQ(
        held->Touch(scene_->AddressOf(0), scene_->granule_bytes(), kTouched),
        DriverResult::kSuccess);
  }
  // The gate does not close before the work is done, and then it does.
  void ExpectIsWaitedFor(HeldStream* held) {
    EXPECT_THAT(gate().Close(kMoment),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(gate().Close(absl::ZeroDuration()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    // Without a trace: who launches now is not kept out.
    { const LaunchGate::Scope scope(&gate(), {nullptr}); }
    EXPECT_EQ(gate().stats().blocked_scopes, 0u);
    {
      const ReleaseSoon release(held);
      const auto closure = gate().Close(absl::InfiniteDuration());
      FIRN_ASSERT_OK(closure);
      if (held->stream() != nullptr) {
        EXPECT_EQ(device()->StreamQuery(held->stream()),
                  DriverResult::kSuccess);
      }
      EXPECT_EQ(scene_->Read(0), scene_->Filled(kTouched));
    }
    EXPECT_EQ(device()->loss(), "");
    FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
  }

  std::unique_ptr<LaunchGateScene> scene_ = std::make_unique<LaunchGateScene>();
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_LAUNCH_GATE_DRAIN_H_
