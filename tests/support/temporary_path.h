// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where tests put files: tests of one program run side by side, each in a
// process of its own, and must not write over each other's.

#ifndef FIRN_TESTS_SUPPORT_TEMPORARY_PATH_H_
#define FIRN_TESTS_SUPPORT_TEMPORARY_PATH_H_

#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace firn::testing {

inline std::string TemporaryPath(const std::string& name) {
  return ::testing::TempDir() + "/firn-" + std::to_string(getpid()) + "-" +
         name;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_TEMPORARY_PATH_H_
