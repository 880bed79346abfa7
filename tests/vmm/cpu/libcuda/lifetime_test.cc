// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Before cuInit, bad settings, process exit and forked children: each in a
// process of its own.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

using ::testing::ExitedWithCode;

// A fresh process each: the program is run anew for one statement.
class CpuLibcudaLifetimeTest : public ::testing::Test {
 protected:
  CpuLibcudaLifetimeTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

DriverResult Init() { return Exported<DriverResult(uint32_t)>("cuInit")(0); }

DriverResult Reserve() {
  DevicePtr address = 0;
  return Exported<DriverResult(DevicePtr*, size_t, size_t, DevicePtr,
                               uint64_t)>("cuMemAddressReserve")(
      &address, kGranule, 0, 0, 0);
}

DriverResult GetCurrent() {
  CudaContext context = nullptr;
  return Exported<DriverResult(CudaContext*)>("cuCtxGetCurrent")(&context);
}

DriverResult AskForReport() {
  char report[8];
  return static_cast<DriverResult>(reinterpret_cast<firnCpuLastReportFunction>(
      ExportedSymbol("firnCpuLastReport"))(report, sizeof(report)));
}

// Whether the calls on memory, on contexts and of the extension all give this.
bool AllGive(DriverResult result) {
  return Reserve() == result && GetCurrent() == result &&
         AskForReport() == result;
}

TEST_F(CpuLibcudaLifetimeTest, NothingWorksBeforeItIsInitialised) {
  EXPECT_EXIT(
      {
        OpenLibrary();
        FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kNotInitialized));
        int32_t version = 0;
        FIRN_REQUIRE_IN_CHILD(
            Exported<DriverResult(int32_t*)>("cuDriverGetVersion")(&version) ==
            DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(version == 13000);
        FIRN_REQUIRE_IN_CHILD(Exported<DriverResult(uint32_t)>("cuInit")(1) ==
                              DriverResult::kInvalidValue);
        FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kNotInitialized));
        FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kSuccess));
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(CpuLibcudaLifetimeTest, BadSettingsAreNamed) {
  const auto init_with = [](const char* spec) {
    OpenLibrary(spec);
    FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kInvalidValue);
    FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kNotInitialized));
    // Nothing is left of the attempt.
    OpenLibrary(kSharedSpec);
    FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kSuccess);
    std::exit(0);
  };
  EXPECT_EXIT(init_with("storage=gost"), ExitedWithCode(0),
              "FIRN_CPU_DRIVER: storage=gost: expected real or ghost\n");
  EXPECT_EXIT(init_with("granularity=3KiB"), ExitedWithCode(0),
              "FIRN_CPU_DRIVER: .*granularity_bytes is 3072: it must be");
  EXPECT_EXIT(init_with("log=/nowhere/log.txt"), ExitedWithCode(0),
              "FIRN_CPU_DRIVER: log=/nowhere/log.txt: expected the path");
}

TEST_F(CpuLibcudaLifetimeTest, WithoutSettingsThereIsOneDevice) {
  EXPECT_EXIT(
      {
        OpenLibrary("");
        unsetenv("FIRN_CPU_DRIVER");
        FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kSuccess);
        int32_t count = 0;
        FIRN_REQUIRE_IN_CHILD(
            Exported<DriverResult(int32_t*)>("cuDeviceGetCount")(&count) ==
            DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(count == 1);
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(CpuLibcudaLifetimeTest, FailuresAreInjectedAndCallsLogged) {
  const std::string path =
      ::testing::TempDir() + "cpu_libcuda_log_" + std::to_string(getpid());
  const std::string spec = "device_bytes=64MiB,log=" + path +
                           ",fail=cuMemAddressReserve:2:OUT_OF_MEMORY";
  // The child is told the path by the environment: it runs the test anew.
  setenv("FIRN_TEST_SPEC", spec.c_str(), /*overwrite=*/0);
  setenv("FIRN_TEST_LOG", path.c_str(), /*overwrite=*/0);
  EXPECT_EXIT(
      {
        OpenLibrary(std::getenv("FIRN_TEST_SPEC"));
        FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(Reserve() == DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(Reserve() == DriverResult::kOutOfMemory);
        FIRN_REQUIRE_IN_CHILD(Reserve() == DriverResult::kSuccess);
        std::exit(0);
      },
      ExitedWithCode(0), "");
  std::ifstream log(path);
  std::string lines[3];
  for (std::string& line : lines) std::getline(log, line);
  EXPECT_THAT(lines[0], ::testing::HasSubstr("cuMemAddressReserve("));
  EXPECT_THAT(lines[0], ::testing::EndsWith("= CUDA_SUCCESS"));
  EXPECT_THAT(lines[1], ::testing::HasSubstr("= CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_THAT(lines[2], ::testing::EndsWith("= CUDA_SUCCESS"));
  std::remove(path.c_str());
}

// Says at its end what the driver still answers.
class CallsAtExit {
 public:
  explicit CallsAtExit(DriverResult expected) : expected_(expected) {}
  ~CallsAtExit() { FIRN_REQUIRE_IN_CHILD(AllGive(expected_)); }

 private:
  const DriverResult expected_;
};

void QueueSomeWork(const CudaApi& api) {
  DevicePtr address = 0;
  FIRN_REQUIRE_IN_CHILD(
      Exported<DriverResult(DevicePtr*, size_t)>("cuMemAlloc_v2")(
          &address, 8 * kGranule) == DriverResult::kSuccess);
  for (int i = 0; i < 100; ++i) {
    FIRN_REQUIRE_IN_CHILD(api.MemsetD8Async(address, 1, 8 * kGranule,
                                            nullptr) == DriverResult::kSuccess);
  }
}

TEST_F(CpuLibcudaLifetimeTest, AtExitTheDriverEndsBetweenWhatIsOlderAndNewer) {
  EXPECT_EXIT(
      {
        static const CallsAtExit older(DriverResult::kDeinitialized);
        std::atexit([] {
          FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kDeinitialized));
        });
        const CudaApi& api = StartedApi();
        static const CallsAtExit newer(DriverResult::kSuccess);
        std::atexit(
            [] { FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kSuccess)); });
        // Destroyed first, with work still queued.
        static ScopedPrimaryContext scope(0);
        QueueSomeWork(api);  // still running at exit
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(CpuLibcudaLifetimeTest, AForkedChildOfADriverHasNone) {
  EXPECT_EXIT(
      {
        const CudaApi& api = StartedApi();
        ScopedPrimaryContext scope(0);
        QueueSomeWork(api);
        // What workers hold at the moment of the fork nobody owns in the child:
        // a leak, in the sanitizer's eyes.
        if (testing::kUnderAddressSanitizer) {
          FIRN_REQUIRE_IN_CHILD(api.StreamSynchronize(nullptr) ==
                                DriverResult::kSuccess);
        }
        const pid_t child = fork();
        if (child == 0) {
          FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kDeinitialized));
          FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kDeinitialized);
          FIRN_REQUIRE_IN_CHILD(api.StreamSynchronize(nullptr) ==
                                DriverResult::kDeinitialized);
          std::exit(0);  // with handlers and destructors
        }
        int status = -1;
        FIRN_REQUIRE_IN_CHILD(waitpid(child, &status, 0) == child);
        FIRN_REQUIRE_IN_CHILD(status == 0);
        FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kSuccess));
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(CpuLibcudaLifetimeTest, AChildForkedBeforeMayStartItsOwn) {
  EXPECT_EXIT(
      {
        OpenLibrary();
        const pid_t child = fork();
        FIRN_REQUIRE_IN_CHILD(Init() == DriverResult::kSuccess);
        FIRN_REQUIRE_IN_CHILD(AllGive(DriverResult::kSuccess));
        if (child == 0) std::exit(0);
        int status = -1;
        FIRN_REQUIRE_IN_CHILD(waitpid(child, &status, 0) == child);
        FIRN_REQUIRE_IN_CHILD(status == 0);
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace firn::testing
