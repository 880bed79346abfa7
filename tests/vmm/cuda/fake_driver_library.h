// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A built fake of libcuda.so.1 in a fresh state.

#ifndef FIRN_TESTS_VMM_CUDA_FAKE_DRIVER_LIBRARY_H_
#define FIRN_TESTS_VMM_CUDA_FAKE_DRIVER_LIBRARY_H_

#include <dlfcn.h>

#include <string>

#include "firn/vmm/cuda/cuda_driver.h"
#include "gtest/gtest.h"
#include "tests/vmm/cuda/fake_libcuda.h"

namespace firn::testing {

class FakeDriverLibrary {
 public:
  // Resets the state that earlier tests of this process have left.
  explicit FakeDriverLibrary(const std::string& path) : path_(path) {
    // Never closed, as the loader never closes it either.
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
    state_ = reinterpret_cast<FakeCudaStateFunction*>(
        dlsym(library, kFakeCudaStateFunction))();
    *state_ = FakeCudaState();
  }

  FakeCudaState& state() { return *state_; }

  CudaDriverOptions Options(int device_ordinal = 0) const {
    CudaDriverOptions options;
    options.device_ordinal = device_ordinal;
    options.library = path_;
    return options;
  }

 private:
  const std::string path_;
  FakeCudaState* state_ = nullptr;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_CUDA_FAKE_DRIVER_LIBRARY_H_
