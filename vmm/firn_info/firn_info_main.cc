// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_info: prints what firn finds on this machine. A driver that cannot be
// used is an answer, not a failure.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "firn/vmm/firn_info/device_report.h"
#include "firn/vmm/firn_info/report_format.h"

namespace {

constexpr char kUsage[] =
    "usage: firn_info [--library=PATH] [--json]\n"
    "\n"
    "Prints the drivers that firn can use on this machine, with what each of\n"
    "their devices can do and the reason why, or why not: every CUDA device,\n"
    "and the CPU driver. To find out, it allocates and maps a few granules on\n"
    "each device, one at a time, and gives them back.\n"
    "\n"
    "  --library=PATH  the CUDA driver to open instead of libcuda.so.1\n"
    "  --json          one JSON object instead of lines of text\n";

constexpr int kExitBadFlag = 2;

}  // namespace

int main(int argc, char** argv) {
  std::string library;
  bool json = false;
  const std::vector<absl::string_view> flags(argv + 1, argv + argc);
  for (absl::string_view flag : flags) {
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  for (absl::string_view flag : flags) {
    const std::string given(flag);
    if (flag == "--json") {
      json = true;
    } else if (absl::ConsumePrefix(&flag, "--library=") && !flag.empty()) {
      library = std::string(flag);
    } else {
      std::fprintf(stderr, "firn_info: unknown flag '%s' (see --help)\n",
                   given.c_str());
      return kExitBadFlag;
    }
  }
  const std::vector<firn::info::DriverReport> drivers = {
      firn::info::ReportCudaDriver(library), firn::info::ReportCpuDriver()};
  std::fputs(
      (json ? firn::info::FormatJson(drivers) : firn::info::FormatText(drivers))
          .c_str(),
      stdout);
  return 0;
}
