// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is tried on a device and on the CPU driver, to see whether they answer
// alike.

#ifndef FIRN_TESTS_GPU_MISUSE_CASES_H_
#define FIRN_TESTS_GPU_MISUSE_CASES_H_

#include <vector>

#include "tests/gpu/misuse_stage.h"

namespace firn::gpu_check {

// Of reservations and of handles.
std::vector<MisuseCase> ReservationCases();
std::vector<MisuseCase> HandleCases();
// Of mappings, and of access to them.
std::vector<MisuseCase> MappingCases();
std::vector<MisuseCase> AccessCases();

// All of them; those that may end the process last.
std::vector<MisuseCase> AllMisuseCases();

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_MISUSE_CASES_H_
