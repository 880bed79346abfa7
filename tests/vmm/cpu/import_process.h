// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A second process with memory of its own, which imports what a test sends it
// and does with it what the test says, one command at a time. It is the test
// program run anew: nothing is shared but the socket between the two.

#ifndef FIRN_TESTS_VMM_CPU_IMPORT_PROCESS_H_
#define FIRN_TESTS_VMM_CPU_IMPORT_PROCESS_H_

#include <sys/types.h>

#include <cstdint>

namespace firn::cpu_testing {

enum class ImportCommand : uint8_t {
  kImport,   // imports the descriptor sent along, and keeps the descriptor
  kMap,      // maps what was imported, and gives device 0 access
  kUnmap,    // unmaps it
  kRelease,  // releases what was imported
  kClose,    // closes the descriptor
  kExport,   // exports what was imported; the answer comes with a descriptor
  kRead,     // answers with the first byte of the mapping
  kWrite,    // adds one to it
  kDevice,   // answers with the device that the properties name
  kFree,     // answers with the free granules of device 0
};

class ImportProcess {
 public:
  // Of a process that did not do what it was told.
  static constexpr int kFailed = -1;

  explicit ImportProcess(bool real);
  // Ends the process without a word to it: the kernel cleans up.
  ~ImportProcess();
  ImportProcess(const ImportProcess&) = delete;
  ImportProcess& operator=(const ImportProcess&) = delete;

  // Sends a command, with a descriptor if `file` is not -1, and returns the
  // answer: 0 where the command has none. `received`, if not null, gets the
  // descriptor that came with it.
  int Tell(ImportCommand command, int file = -1, int* received = nullptr);

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_IMPORT_PROCESS_H_
