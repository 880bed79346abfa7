// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps the files of this process below a size, while it lives.

#ifndef FIRN_TESTS_VMM_CPU_FILE_SIZE_LIMIT_H_
#define FIRN_TESTS_VMM_CPU_FILE_SIZE_LIMIT_H_

#include <sys/resource.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace firn::cpu_testing {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const struct rlimit limit = {bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  struct rlimit before_ = {};
};

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_FILE_SIZE_LIMIT_H_
