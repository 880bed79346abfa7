// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the other process does in checks of sharing between processes.

#ifndef FIRN_TESTS_CONTRACT_PEER_PROCESS_H_
#define FIRN_TESTS_CONTRACT_PEER_PROCESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/contract/suite_devices.h"

namespace firn::contract {

// Imports the memory of a descriptor, expects it to hold kExportedByte, fills
// it with kAnsweredByte and ends.
inline constexpr absl::string_view kImporterRole = "importer";
// Creates memory with kExportedByte in it, sends its descriptor over a socket
// and ends.
inline constexpr absl::string_view kExporterRole = "exporter";

inline constexpr uint8_t kExportedByte = 0x51;
inline constexpr uint8_t kAnsweredByte = 0x52;

// Plays a role in this process; `fd` is the descriptor or socket. Returns the
// exit status.
int PlayRole(absl::string_view role, Way way, int fd);

// Runs a process that plays a role and waits for its end. Returns its exit
// status.
int RunPeerProcess(absl::string_view role, Way way, int fd);
// Likewise for kExporterRole; returns the descriptor it sent, or -1.
int RunExporterProcess(Way way);

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_PEER_PROCESS_H_
