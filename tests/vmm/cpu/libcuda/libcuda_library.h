// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The library under test, opened; and processes of their own for what can
// happen but once in a process.

#ifndef FIRN_TESTS_VMM_CPU_LIBCUDA_LIBCUDA_LIBRARY_H_
#define FIRN_TESTS_VMM_CPU_LIBCUDA_LIBCUDA_LIBRARY_H_

#include <cstdint>
#include <cstdlib>
#include <string>

#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"

namespace firn::testing {

// Two devices of 64 MiB; what most tests share.
inline constexpr char kSharedSpec[] =
    "devices=2,device_bytes=64MiB,errors=quiet,cost=a100";
inline constexpr size_t kGranule = size_t{2} << 20;

// Opens the library, with settings for the first cuInit of this process.
void* OpenLibrary(const char* spec = kSharedSpec);

// An exported function.
void* ExportedSymbol(const std::string& name);
template <typename Signature>
Signature* Exported(const std::string& name) {
  return reinterpret_cast<Signature*>(ExportedSymbol(name));
}

// The functions that firn's loader finds, of a library that was started.
const CudaApi& StartedApi();

// Makes the primary context of a device current on this thread for a scope.
class ScopedPrimaryContext {
 public:
  explicit ScopedPrimaryContext(int device);
  ~ScopedPrimaryContext();
  CudaContext context() const { return context_; }

 private:
  const int device_;
  CudaContext context_ = nullptr;
};

// Of device memory, without shareable handle types.
AllocationProp PinnedOn(int device);

// For processes of their own (EXPECT_EXIT): ends this one, saying why, unless
// the condition holds.
#define FIRN_REQUIRE_IN_CHILD(condition)                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                   #condition);                                       \
      std::_Exit(1);                                                  \
    }                                                                 \
  } while (false)

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_CPU_LIBCUDA_LIBCUDA_LIBRARY_H_
