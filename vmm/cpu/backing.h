// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory behind the granules of devices with contents: ranges of one sparse
// memory file, which lets any granule be mapped at any address, and a file of
// its own for each allocation that can be exported.

#ifndef FIRN_VMM_CPU_BACKING_H_
#define FIRN_VMM_CPU_BACKING_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "firn/vmm/cpu/host_account.h"
#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/offset_allocator.h"
#include "firn/vmm/cpu/private_file.h"
#include "firn/vmm/cpu/shared_memory_file.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Thread safety: none.
class Backing {
 public:
  // Memory is filled with kCpuPoisonWord when allocated if `poison`, else it
  // reads as zero.
  static absl::StatusOr<std::unique_ptr<Backing>> Create(
      uint64_t granularity_bytes, bool poison);
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // Takes memory in the common file; refuses beyond what the host can spare.
  Verdict Allocate(uint64_t granules, StoragePlace* place);
  // Takes memory in a file of its own.
  Verdict AllocateFile(const SharedMemoryInfo& info, StoragePlace* place);
  // Takes part in the file of another backing, which keeps the account of its
  // memory. Takes over `file`, the descriptor of a PrivateFile.
  Verdict Adopt(int file, StoragePlace* place);
  // Gives up what one of these gave: back to the host, unless others hold it.
  void Free(const StoragePlace& place, uint64_t granules);
  // The memory reads as zero from then on.
  void Discard(const StoragePlace& place, uint64_t granules);

  // Makes `granules` from `place` on appear at `address`.
  bool MapAt(DevicePtr address, const StoragePlace& place, uint64_t granules,
             AccessFlags access) const {
    return MapFile(address, granules * granularity_bytes_, place.file,
                   place.first_granule * granularity_bytes_, access,
                   huge_pages_);
  }

 private:
  struct OwnFile {
    PrivateFile file;
    // From the host; 0 where others keep the account.
    uint64_t taken_bytes = 0;
  };

  Backing(uint64_t granularity_bytes, bool poison, PrivateFile file,
          DevicePtr window, uint64_t window_bytes);

  // What our files take of the host's memory now.
  uint64_t ResidentBytes() const;
  Verdict GrowFile(uint64_t file_bytes);
  bool Poison(const StoragePlace& place, uint64_t granules);

  const uint64_t granularity_bytes_;
  const bool poison_;
  const bool huge_pages_;
  // The common file.
  const PrivateFile file_;
  // Addresses through which fresh memory is filled.
  const DevicePtr window_;
  const uint64_t window_bytes_;
  OffsetAllocator offsets_;
  uint64_t file_bytes_ = 0;
  // The other files, by descriptor.
  absl::flat_hash_map<int, OwnFile> own_files_;
  HostAccount host_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_BACKING_H_
