// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a test and the fake libcuda.so share: the settings of the next driver
// and the record of the calls made to it.

#ifndef FIRN_TESTS_VMM_CUDA_FAKE_LIBCUDA_H_
#define FIRN_TESTS_VMM_CUDA_FAKE_LIBCUDA_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace firn::testing {

// A call of cuGetProcAddress.
struct SymbolRequest {
  std::string symbol;
  int32_t version = 0;
  uint64_t flags = 0;
};

// The fake's one driver. Not thread-safe: its tests use one thread.
struct FakeCudaState {
  // --- Settings -------------------------------------------------------------
  int32_t driver_version = 13000;
  int32_t device_count = 2;
  // What every attribute of a device is.
  int32_t attributes = 1;
  // Every entry point returns CUDA_ERROR_STUB_LIBRARY.
  bool is_stub = false;
  // cuGetProcAddress does not know this symbol (its name without suffix); and
  // how it says so: with a status, or by success without a function.
  std::string missing_symbol;
  bool missing_symbol_status = true;
  // What cuGetProcAddress returns for every symbol instead of looking.
  int32_t lookup_result = 0;
  // Results other than success, by the exported name of the function.
  std::map<std::string, int32_t> results;
  // The next results of a function, before those above.
  std::map<std::string, std::deque<int32_t>> next_results;

  // --- Record ---------------------------------------------------------------
  std::vector<SymbolRequest> requests;
  // Every call but cuGetProcAddress: its exported name and arguments, and
  // " @<context>" where it was made with a context current, e.g.
  // "cuStreamQuery(0x10) @0xc1".
  std::vector<std::string> calls;
  // Contexts current on the thread, the last one on top.
  std::vector<uint64_t> context_stack;
  int32_t primary_context_references = 0;
};

// The exported function that gives access to the state, and its type.
inline constexpr char kFakeCudaStateFunction[] = "FirnFakeCudaState";
using FakeCudaStateFunction = FakeCudaState*();

// The context that device 0 has; that of device n is n more.
inline constexpr uint64_t kFakePrimaryContext = 0xc0;

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_CUDA_FAKE_LIBCUDA_H_
