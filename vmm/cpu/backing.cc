// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/backing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/host_memory.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "firn/vmm/cpu/memory_file.h"

namespace firn::cpu {
namespace {

// The file grows in such steps; it is sparse, so they cost nothing.
constexpr uint64_t kFileStepBytes = uint64_t{1} << 30;
constexpr uint64_t kWindowBytes = uint64_t{64} << 20;
// The window, and what lies before and after the part of it that is in use.
constexpr int64_t kWindowKernelMappings = 2;

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
  PrivateFile file;
  const Verdict made =
      CreateMemoryFile("firn_device_memory", /*sealable=*/false, &file);
  if (!made.ok()) {
    ReleaseAddresses(window, window_bytes);
    KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
    return absl::UnavailableError(made.rule);
  }
  return std::unique_ptr<Backing>(new Backing(
      granularity_bytes, poison, std::move(file), window, window_bytes));
}

Backing::Backing(uint64_t granularity_bytes, bool poison, PrivateFile file,
                 DevicePtr window, uint64_t window_bytes)
    : granularity_bytes_(granularity_bytes),
      poison_(poison),
      // A smaller granule in a huge page would hold memory that is not its own.
      huge_pages_(granularity_bytes % kHostHugePageBytes == 0 &&
                  HostTakesHugePageAdvice()),
      file_(std::move(file)),
      window_(window),
      window_bytes_(window_bytes),
      host_(&HostAvailableBytes, [this] { return ResidentBytes(); }) {}

Backing::~Backing() {
  ReleaseAddresses(window_, window_bytes_);
  KernelMappingBudget::OfProcess().Remove(kWindowKernelMappings);
}

Verdict Backing::Allocate(uint64_t granules, StoragePlace* place) {
  const uint64_t bytes = granules * granularity_bytes_;
  if (!host_.TryTake(bytes)) {
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  const StoragePlace taken{file_.fd(), offsets_.Allocate(granules)};
  const Verdict grown = GrowFile(offsets_.end() * granularity_bytes_);
  if (!grown.ok()) {
    Free(taken, granules);
    return grown;
  }
  if (poison_ && !Poison(taken, granules)) {
    Free(taken, granules);
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  *place = taken;
  return Allow();
}

Verdict Backing::AllocateFile(const SharedMemoryInfo& info,
                              StoragePlace* place) {
  if (!host_.TryTake(info.bytes)) {
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  PrivateFile file;
  const Verdict made = CreateSharedMemoryFile(info, &file);
  if (!made.ok()) {
    host_.Return(info.bytes);
    return made;
  }
  const StoragePlace taken{file.fd(), 0};
  own_files_.emplace(taken.file, OwnFile{std::move(file), info.bytes});
  const uint64_t granules = info.bytes / granularity_bytes_;
  if (poison_ && !Poison(taken, granules)) {
    Free(taken, granules);
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  *place = taken;
  return Allow();
}

Verdict Backing::Adopt(int file, StoragePlace* place) {
  own_files_.emplace(file, OwnFile{PrivateFile(file), 0});
  *place = StoragePlace{file, 0};
  return Allow();
}

void Backing::Free(const StoragePlace& place, uint64_t granules) {
  if (place.file == file_.fd()) {
    Discard(place, granules);
    offsets_.Free(place.first_granule, granules);
    host_.Return(granules * granularity_bytes_);
    return;
  }
  const auto own = own_files_.find(place.file);
  host_.Return(own->second.taken_bytes);
  own_files_.erase(own);
}

void Backing::Discard(const StoragePlace& place, uint64_t granules) {
  fallocate(place.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(place.first_granule * granularity_bytes_),
            static_cast<off_t>(granules * granularity_bytes_));
}

uint64_t Backing::ResidentBytes() const {
  uint64_t bytes = ResidentBytesOf(file_.fd());
  for (const auto& [fd, own] : own_files_) {
    if (own.taken_bytes != 0) bytes += ResidentBytesOf(fd);
  }
  return bytes;
}

Verdict Backing::GrowFile(uint64_t file_bytes) {
  if (file_bytes <= file_bytes_) return Allow();
  const uint64_t stepped_bytes =
      (file_bytes + kFileStepBytes - 1) / kFileStepBytes * kFileStepBytes;
  // The last step may be cut short.
  const uint64_t grown_bytes =
      std::max(file_bytes, std::min(stepped_bytes, MaxFileBytes()));
  const Verdict resized = ResizeMemoryFile(file_.fd(), grown_bytes);
  if (resized.ok()) file_bytes_ = grown_bytes;
  return resized;
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
