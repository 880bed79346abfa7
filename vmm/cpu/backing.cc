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

constexpr const char* kHostMemoryRule =
    "the host must be able to spare the memory";
constexpr const char* kFileRule =
    "the process must have a file descriptor to spare: memory that can be "
    "exported takes one";

uint64_t ResidentBytesOf(int file) {
  struct stat status;
  if (fstat(file, &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

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
  const int file = memfd_create("firn_device_memory", MFD_CLOEXEC);
  if (file < 0) {
    const int error = errno;
    ReleaseAddresses(window, window_bytes);
    KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
    return absl::UnavailableError(
        absl::StrCat("memfd_create: ", strerror(error)));
  }
  return std::unique_ptr<Backing>(
      new Backing(granularity_bytes, poison, file, window, window_bytes));
}

Backing::Backing(uint64_t granularity_bytes, bool poison, int file,
                 DevicePtr window, uint64_t window_bytes)
    : granularity_bytes_(granularity_bytes),
      poison_(poison),
      // A smaller granule in a huge page would hold memory that is not its own.
      huge_pages_(granularity_bytes % kHostHugePageBytes == 0 &&
                  HostTakesHugePageAdvice()),
      file_(file),
      window_(window),
      window_bytes_(window_bytes) {}

Backing::~Backing() {
  ReleaseAddresses(window_, window_bytes_);
  KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
  close(file_);
  for (const auto& [file, bytes] : own_files_) close(file);
}

Verdict Backing::Allocate(uint64_t granules, StoragePlace* place) {
  const uint64_t bytes = granules * granularity_bytes_;
  if (!TakeFromHost(bytes)) {
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  const StoragePlace taken{file_, offsets_.Allocate(granules)};
  if (!GrowFile(offsets_.end() * granularity_bytes_) ||
      (poison_ && !Poison(taken, granules))) {
    Free(taken, granules);
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  *place = taken;
  return Allow();
}

Verdict Backing::AllocateFile(const SharedMemoryInfo& info,
                              StoragePlace* place) {
  if (!TakeFromHost(info.bytes)) {
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  const StoragePlace taken{CreateSharedMemoryFile(info), 0};
  if (taken.file < 0) {
    ReturnToHost(info.bytes);
    return Refuse(DriverResult::kOutOfMemory, kFileRule);
  }
  own_files_.emplace(taken.file, info.bytes);
  const uint64_t granules = info.bytes / granularity_bytes_;
  if (poison_ && !Poison(taken, granules)) {
    Free(taken, granules);
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  *place = taken;
  return Allow();
}

Verdict Backing::Adopt(int file, StoragePlace* place) {
  const int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return Refuse(DriverResult::kOutOfMemory, kFileRule);
  own_files_.emplace(own, 0);
  *place = StoragePlace{own, 0};
  return Allow();
}

void Backing::Free(const StoragePlace& place, uint64_t granules) {
  if (place.file == file_) {
    Discard(place, granules);
    offsets_.Free(place.first_granule, granules);
    ReturnToHost(granules * granularity_bytes_);
    return;
  }
  const auto own = own_files_.find(place.file);
  ReturnToHost(own->second);
  own_files_.erase(own);
  close(place.file);
}

void Backing::Discard(const StoragePlace& place, uint64_t granules) {
  fallocate(place.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(place.first_granule * granularity_bytes_),
            static_cast<off_t>(granules * granularity_bytes_));
}

bool Backing::TakeFromHost(uint64_t bytes) {
  if (bytes > headroom_bytes_) {
    // What is allocated but was never touched is not yet missing at the host.
    const uint64_t promised_bytes =
        allocated_bytes_ - std::min(allocated_bytes_, ResidentBytes()) +
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
  allocated_bytes_ += bytes;
  return true;
}

void Backing::ReturnToHost(uint64_t bytes) {
  allocated_bytes_ -= bytes;
  headroom_bytes_ += bytes;
}

uint64_t Backing::ResidentBytes() const {
  uint64_t bytes = ResidentBytesOf(file_);
  for (const auto& [file, taken_bytes] : own_files_) {
    if (taken_bytes != 0) bytes += ResidentBytesOf(file);
  }
  return bytes;
}

bool Backing::GrowFile(uint64_t file_bytes) {
  if (file_bytes <= file_bytes_) return true;
  const uint64_t grown_bytes =
      (file_bytes + kFileStepBytes - 1) / kFileStepBytes * kFileStepBytes;
  if (ftruncate(file_, static_cast<off_t>(grown_bytes)) != 0) return false;
  file_bytes_ = grown_bytes;
  return true;
}

bool Backing::Poison(const StoragePlace& place, uint64_t granules) {
  const uint64_t window_granules = window_bytes_ / granularity_bytes_;
  for (uint64_t done = 0; done < granules;) {
    const uint64_t part = std::min(window_granules, granules - done);
    const uint64_t part_bytes = part * granularity_bytes_;
    const StoragePlace part_place{place.file, place.first_granule + done};
    if (!MapAt(window_, part_place, part, AccessFlags::kReadWrite)) {
      return false;
    }
    FillWithPoison(window_, part_bytes);
    if (!MapInaccessible(window_, part_bytes)) return false;
    done += part;
  }
  return true;
}

}  // namespace firn::cpu
