// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What another process needs to map a block of a pool: a handle of each of its
// granules.
//
//   absl::StatusOr<firn::ExportedBlock> exported = pool->Export(*block);
//   if (!exported.ok()) return exported.status();
//   for (size_t i = 0; i < exported->granule_count(); ++i) {
//     // send exported->descriptor(i) over a Unix socket ...
//   }

#ifndef FIRN_CORE_EXPORTED_BLOCK_H_
#define FIRN_CORE_EXPORTED_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/vmm/driver_types.h"

namespace firn {

// Owns a file descriptor for each granule of an exported block and closes, when
// it goes, those that were not released. The importer imports them one by one,
// maps them side by side in their order, each for granule_bytes() at offset 0,
// and finds the block offset_bytes() into the first one. Neither the block nor
// its pool need live any more by then: a descriptor keeps its granule.
// Move-only. Thread safety: none.
class ExportedBlock {
 public:
  // Of nothing.
  ExportedBlock() = default;
  ExportedBlock(ExportedBlock&& other) noexcept;
  ExportedBlock& operator=(ExportedBlock&& other) noexcept;
  ~ExportedBlock() { Close(); }
  ExportedBlock(const ExportedBlock&) = delete;
  ExportedBlock& operator=(const ExportedBlock&) = delete;

  // What the handles are: kNone if this is of nothing.
  ShareableHandleType type() const {
    return descriptors_.empty() ? ShareableHandleType::kNone
                                : ShareableHandleType::kPosixFileDescriptor;
  }
  uint64_t granule_bytes() const { return granule_bytes_; }
  // Where the block starts: always 0, as it has its granules to itself.
  uint64_t offset_bytes() const { return 0; }
  // As requested: what follows in the last granule is zeros, and nobody's.
  uint64_t bytes() const { return bytes_; }

  size_t granule_count() const { return descriptors_.size(); }
  // The descriptor of a granule, below granule_count(), which stays this
  // object's; -1 if it was released.
  int descriptor(size_t granule) const { return descriptors_[granule]; }
  // Likewise, and the caller is to close it.
  int ReleaseDescriptor(size_t granule);

  // Closes what was not released; of nothing afterwards.
  void Close();

 private:
  friend class Pool;
  ExportedBlock(uint64_t bytes, uint64_t granule_bytes)
      : bytes_(bytes), granule_bytes_(granule_bytes) {}

  uint64_t bytes_ = 0;
  uint64_t granule_bytes_ = 0;
  std::vector<int> descriptors_;  // by granule
};

}  // namespace firn

#endif  // FIRN_CORE_EXPORTED_BLOCK_H_
