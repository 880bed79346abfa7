// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Lets a check go on when the process is already ending: after the exit
// handlers of whatever was opened after the program began.

#ifndef FIRN_TESTS_CONTRACT_EXIT_PROBE_H_
#define FIRN_TESTS_CONTRACT_EXIT_PROBE_H_

#include <functional>
#include <string>

namespace firn::contract {

// Called once, before any driver is opened.
void InstallExitProbe();

// `probe` returns what is wrong, or "". The devices must live until then.
void SetExitProbe(std::function<std::string()> probe);
bool HasExitProbe();

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_EXIT_PROBE_H_
