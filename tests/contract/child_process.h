// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// This program, started once more.

#ifndef FIRN_TESTS_CONTRACT_CHILD_PROCESS_H_
#define FIRN_TESTS_CONTRACT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace firn::contract {

// Starts this program with `arguments`. The child inherits the standard
// streams and `inherited_fd`, if that is not -1. Returns -1 if it cannot.
pid_t StartChild(const std::vector<std::string>& arguments, int inherited_fd);

// Waits for a child to end. Returns its exit status, or -signal.
int WaitForChild(pid_t child);

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_CHILD_PROCESS_H_
