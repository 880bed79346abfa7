// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/host_memory.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"

namespace firn::cpu {
namespace {

// How much is allocated at most before the host is asked again what it has.
constexpr uint64_t kHeadroomBytes = uint64_t{256} << 20;
// The file grows in such steps; it is sparse, so they cost nothing.
constexpr uint64_t kFileStepBytes = uint64_t{1} << 30;
constexpr uint64_t kWindowBytes = uint64_t{64} << 20;
// The window, and what lies before and after the part of it that is in use.
constexpr int64_t kWindowKernelMappings = 2;

// Sanitizers need not look on while megabytes are filled.
ABSL_ATTRIBUTE_NO_SANITIZE_THREAD ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS void
FillWithPoison(DevicePtr address, uint64_t bytes) {
  constexpr uint64_t kPattern =
      (uint64_t{kCpuPoisonWord} << 32) | kCpuPoisonWord;
  auto* const words =
      reinterpret_cast<uint64_t*>(static_cast<uintptr_t>(address));
  for (uint64_t i = 0; i < bytes / sizeof(uint64_t); ++i) words[i] = kPattern;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backing>> Backing::Create(
    uint64_t granularity_bytes, bool poison) {
  const uint64_t window_bytes = std::max(granularity_bytes, kWindowBytes);
  if (!KernelMappingBudget::OfProcess().TryAdd(kWindowKernelMappings)) {
    return absl::ResourceExhaustedError(
        "the process has too many memory mappings");
  }
  DevicePtr window = 0;
  if (!ReserveAddresses(window_bytes,
                        std::max(granularity_bytes, kHostHugePageBytes),
                        /*hint=*/0, &window)) {
    KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
    return absl::ResourceExhaustedError("no addresses left for the device");
  }
  const int fd = memfd_create("firn_device_memory", MFD_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    ReleaseAddresses(window, window_bytes);
    KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
    return absl::UnavailableError(
        absl::StrCat("memfd_create: ", strerror(error)));
  }
  return std::unique_ptr<Backing>(
      new Backing(granularity_bytes, poison, fd, window, window_bytes));
}

Backing::Backing(uint64_t granularity_bytes, bool poison, int fd,
                 DevicePtr window, uint64_t window_bytes)
    : granularity_bytes_(granularity_bytes),
      poison_(poison),
      // A smaller granule in a huge page would hold memory that is not its own.
      huge_pages_(granularity_bytes % kHostHugePageBytes == 0 &&
                  HostTakesHugePageAdvice()),
      fd_(fd),
      window_(window),
      window_bytes_(window_bytes) {}

Backing::~Backing() {
  ReleaseAddresses(window_, window_bytes_);
  KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
  close(fd_);
}

bool Backing::Allocate(uint64_t granules, uint64_t* first) {
  const uint64_t bytes = granules * granularity_bytes_;
  if (!TakeFromHost(bytes)) return false;
  allocated_bytes_ += bytes;
  *first = offsets_.Allocate(granules);
  if (!GrowFile(offsets_.end() * granularity_bytes_) ||
      (poison_ && !Poison(*first, granules))) {
    Free(*first, granules);
    return false;
  }
  return true;
}

void Backing::Free(uint64_t first, uint64_t granules) {
  const uint64_t bytes = granules * granularity_bytes_;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(first * granularity_bytes_),
            static_cast<off_t>(bytes));
  offsets_.Free(first, granules);
  allocated_bytes_ -= bytes;
  headroom_bytes_ += bytes;
}

bool Backing::MapAt(DevicePtr address, uint64_t first, uint64_t granules,
                    AccessFlags access) const {
  return MapFile(address, granules * granularity_bytes_, fd_,
                 first * granularity_bytes_, access, huge_pages_);
}

bool Backing::TakeFromHost(uint64_t bytes) {
  if (bytes > headroom_bytes_) {
    // What is allocated but was never touched is not yet missing at the host.
    struct stat status;
    uint64_t resident_bytes = 0;
    if (fstat(fd_, &status) == 0) {
      resident_bytes = static_cast<uint64_t>(status.st_blocks) * 512;
    }
    const uint64_t promised_bytes = allocated_bytes_ -
                                    std::min(allocated_bytes_, resident_bytes) +
                                    kHostReserveBytes;
    const uint64_t available_bytes = HostAvailableBytes();
    if (available_bytes < promised_bytes ||
        available_bytes - promised_bytes < bytes) {
      return false;
    }
    headroom_bytes_ = std::max(
        bytes, std::min(available_bytes - promised_bytes, kHeadroomBytes));
  }
  headroom_bytes_ -= bytes;
  return true;
}

bool Backing::GrowFile(uint64_t file_bytes) {
  if (file_bytes <= file_bytes_) return true;
  const uint64_t grown_bytes =
      (file_bytes + kFileStepBytes - 1) / kFileStepBytes * kFileStepBytes;
  if (ftruncate(fd_, static_cast<off_t>(grown_bytes)) != 0) return false;
  file_bytes_ = grown_bytes;
  return true;
}

bool Backing::Poison(uint64_t first, uint64_t granules) {
  const uint64_t window_granules = window_bytes_ / granularity_bytes_;
  for (uint64_t done = 0; done < granules;) {
    const uint64_t part = std::min(window_granules, granules - done);
    const uint64_t part_bytes = part * granularity_bytes_;
    if (!MapAt(window_, first + done, part, AccessFlags::kReadWrite)) {
      return false;
    }
    FillWithPoison(window_, part_bytes);
    if (!MapInaccessible(window_, part_bytes)) return false;
    done += part;
  }
  return true;
}

}  // namespace firn::cpu
