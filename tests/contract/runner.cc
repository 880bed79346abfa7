// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/runner.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/contract/child_process.h"
#include "tests/contract/contract_device.h"
#include "tests/contract/watchdog.h"

namespace firn::contract {
namespace {

// No check takes a second; sanitizers and busy machines are slow.
constexpr absl::Duration kHangsAfter = absl::Seconds(60);

void PrintFailure(const Check& check, const std::string& failure) {
  std::printf("FAILED %s [%s: %s]: %s\n", check.name.c_str(),
              std::string(SourceKindName(check.source.kind)).c_str(),
              std::string(check.source.text).c_str(), failure.c_str());
}

// For ever, and so that a leak checker still sees it.
template <typename T>
void Keep(T value) {
  static auto* const kept = new std::vector<T>;
  kept->push_back(std::move(value));
}

}  // namespace

void Runner::KeepDevices() { Keep(std::move(devices_)); }

absl::Status Runner::Open() {
  auto devices =
      testing::OpenDevices(options_.way, SuiteDevices(options_.defect));
  if (!devices.ok()) return devices.status();
  devices_ = *std::move(devices);
  return absl::OkStatus();
}

std::string Runner::WhyNot(const Check& check) const {
  const Way way = options_.way;
  if (check.source.kind == SourceKind::kStrict && way == Way::kGpu) {
    return "a rule of the CPU driver";
  }
  if (check.Has(kLazy) && way != Way::kCpuLazy && way != Way::kLibcuda) {
    return "this driver is not known to unmap at once";
  }
  if (check.Has(kDraining) && way != Way::kCpuDraining) {
    return "this driver is not known to wait for all work";
  }
  if (check.Has(kKernels) && devices_->launch_kernel == nullptr) {
    return "this driver runs no host functions as kernels";
  }
  if (check.Has(kTwoDevices) && devices_->drivers.size() < 2) {
    return "there is no second device";
  }
  if (check.Has(kOwnMemoryInfo) && way == Way::kGpu) {
    return "other processes use the device's memory as well";
  }
  return "";
}

void Runner::RunOn(const Check& check, CheckResult* result) {
  std::vector<std::unique_ptr<ContractDevice>> devices;
  for (size_t i = 0; i < devices_->drivers.size(); ++i) {
    devices.push_back(std::make_unique<ContractDevice>(
        options_.way, devices_.get(), i, result));
  }
  if (devices.size() == 2) {
    devices[0]->set_other(devices[1].get());
    devices[1]->set_other(devices[0].get());
    int32_t can_access = 0;
    if (check.Has(kTwoDevices) &&
        (devices[0]->DeviceCanAccessPeer(&can_access, 1) !=
             DriverResult::kSuccess ||
         can_access == 0)) {
      result->Skip("the devices are no peers");
      return;
    }
  }
  if (check.Has(kOwnProcess)) {
    check.function(*devices[0], *result);
    // Work may still hold on to what the check set up, and a lost device gives
    // nothing back.
    Keep(std::move(devices));
    return;
  }
  std::vector<uint64_t> free_bytes;
  for (const auto& device : devices) free_bytes.push_back(device->FreeBytes());
  check.function(*devices[0], *result);
  for (const auto& device : devices) {
    for (const std::string& refusal : device->CleanUp()) {
      result->Fail(__FILE__, __LINE__, refusal);
    }
  }
  if (options_.way == Way::kGpu) return;
  for (size_t i = 0; i < devices.size(); ++i) {
    result->ExpectEqual(__FILE__, __LINE__, "free bytes after the check",
                        free_bytes[i], devices[i]->FreeBytes());
  }
}

Outcome Runner::RunHere(const Check& check) {
  const Watchdog watchdog(check.name, kHangsAfter);
  CheckResult result;
  if (devices_ == nullptr) {
    const absl::Status opened = Open();
    if (!opened.ok()) result.Fail(__FILE__, __LINE__, opened.ToString());
  }
  if (devices_ != nullptr) {
    const std::string why_not = WhyNot(check);
    if (why_not.empty()) {
      RunOn(check, &result);
    } else {
      result.Skip(why_not);
    }
  }
  if (testing::OpensAfresh(options_.way) && !check.Has(kOwnProcess))
    devices_ = nullptr;
  for (const std::string& failure : result.failures()) {
    PrintFailure(check, failure);
  }
  if (!result.failures().empty()) return Outcome::kFailed;
  if (result.skip_reason().empty()) return Outcome::kPassed;
  std::printf("skipped %s: %s\n", check.name.c_str(),
              result.skip_reason().c_str());
  return Outcome::kSkipped;
}

Outcome Runner::RunInChild(const Check& check) {
  std::vector<std::string> arguments = options_.child_arguments;
  arguments.push_back(absl::StrCat("--check=", check.name));
  const int status = WaitForChild(StartChild(arguments, /*inherited_fd=*/-1));
  switch (status) {
    case kExitPassed:
      return Outcome::kPassed;
    case kExitSkipped:
      return Outcome::kSkipped;
    case kExitFailed:
      return Outcome::kFailed;
    default:
      PrintFailure(check,
                   status < 0
                       ? absl::StrCat("expected the process to end "
                                      "by itself, came signal ",
                                      -status)
                       : absl::StrCat("expected exit status 0, came ", status));
      return Outcome::kFailed;
  }
}

}  // namespace firn::contract
