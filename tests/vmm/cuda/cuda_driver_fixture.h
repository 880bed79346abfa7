// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver over a fake library, for tests of what it does once loaded.

#ifndef FIRN_TESTS_VMM_CUDA_CUDA_DRIVER_FIXTURE_H_
#define FIRN_TESTS_VMM_CUDA_CUDA_DRIVER_FIXTURE_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/cuda/cuda_driver.h"
#include "firn/vmm/driver.h"
#include "gtest/gtest.h"
#include "tests/vmm/cuda/fake_driver_library.h"
#include "tests/vmm/cuda/fake_libcuda.h"

namespace firn::testing {

class CudaDriverTest : public ::testing::Test {
 protected:
  // Null after a failure of the test; the record is empty.
  std::unique_ptr<Driver> Open(int device_ordinal = 0) {
    absl::StatusOr<std::unique_ptr<Driver>> driver =
        OpenCudaDriver(library_.Options(device_ordinal));
    if (!driver.ok()) {
      ADD_FAILURE() << driver.status();
      return nullptr;
    }
    state().calls.clear();
    return *std::move(driver);
  }
  absl::Status OpenStatus(int device_ordinal = 0,
                          bool needs_virtual_memory = true) {
    CudaDriverOptions options = library_.Options(device_ordinal);
    options.needs_virtual_memory = needs_virtual_memory;
    return OpenCudaDriver(options).status();
  }
  absl::StatusOr<int> Count() {
    return CountCudaDevices(library_.Options().library);
  }
  FakeCudaState& state() { return library_.state(); }

 private:
  FakeDriverLibrary library_{FIRN_FAKE_LIBCUDA_V2};
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_CUDA_CUDA_DRIVER_FIXTURE_H_
