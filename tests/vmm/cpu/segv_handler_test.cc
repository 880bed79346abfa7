// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Faults that are none of the driver's business go where they went before.

#include "firn/vmm/cpu/segv_handler.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>

#include "firn/vmm/cpu/cpu_driver.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

// Compilers know that nothing lies at the address 64: it must not reach them as
// a constant.
void Store(DevicePtr address, uint8_t value) {
  volatile DevicePtr opaque = address;
  *static_cast<volatile uint8_t*>(ToPointer(opaque)) = value;
}

// What threads other than the driver's own do is not touched: a fault there
// ends the process, as before.
class SegvHandlerDeathTest : public ::testing::Test {
 protected:
  SegvHandlerDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  // Sanitizers put a handler of their own in the place of the default one.
  static void RestoreDefault() { signal(SIGSEGV, SIG_DFL); }
  static void ExitWith42(int /*signal_number*/) { _exit(42); }
  static void ExitWithAddressSeen(int /*signal_number*/, siginfo_t* info,
                                  void* /*context*/) {
    _exit(reinterpret_cast<uintptr_t>(info->si_addr) == 64 ? 43 : 1);
  }
};

TEST_F(SegvHandlerDeathTest, TheHostMayNotTouchDeviceMemoryWithoutAccess) {
  EXPECT_EXIT(
      {
        RestoreDefault();
        CpuTestDevice device(SmallRealOptions());
        Store(device.Reserve(1), 1);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(SegvHandlerDeathTest, AFaultOfAKernelElsewhereIsAnOrdinaryOne) {
  EXPECT_EXIT(
      {
        RestoreDefault();
        CpuTestDevice device(SmallRealOptions());
        device->LaunchKernel(nullptr, {}, [] { Store(64, 1); });
        device->CtxSynchronize();
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(SegvHandlerDeathTest, ASignalThatWasSentIsNotTakenForAFault) {
  EXPECT_EXIT(
      {
        RestoreDefault();
        CpuTestDevice device(SmallRealOptions());
        raise(SIGSEGV);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(SegvHandlerDeathTest, APlainHandlerFromBeforeGetsOtherFaults) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, &ExitWith42);
        CpuTestDevice device(SmallRealOptions());
        Store(64, 1);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(SegvHandlerDeathTest, AHandlerFromBeforeLearnsTheAddress) {
  EXPECT_EXIT(
      {
        struct sigaction action = {};
        action.sa_sigaction = &ExitWithAddressSeen;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, nullptr);
        CpuTestDevice device(SmallRealOptions());
        Store(64, 1);
      },
      ::testing::ExitedWithCode(43), "");
}

TEST_F(SegvHandlerDeathTest, AnIgnoredFaultStillEndsTheProcess) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_IGN);
        CpuTestDevice device(SmallRealOptions());
        raise(SIGSEGV);
        Store(64, 1);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace firn::cpu_testing
