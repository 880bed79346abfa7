// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract suite as a program: runs its checks on one driver.

#include <string>
#include <vector>

#include "tests/contract/suite.h"

int main(int argc, char** argv) {
  return firn::contract::SuiteMain(
      std::vector<std::string>(argv + 1, argv + argc));
}
