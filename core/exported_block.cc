// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/exported_block.h"

#include <unistd.h>

#include <utility>

namespace firn {
namespace {

// Of what is no descriptor any more.
constexpr int kReleased = -1;

}  // namespace

ExportedBlock::ExportedBlock(ExportedBlock&& other) noexcept
    : bytes_(std::exchange(other.bytes_, 0)),
      granule_bytes_(std::exchange(other.granule_bytes_, 0)),
      descriptors_(std::exchange(other.descriptors_, {})) {}

ExportedBlock& ExportedBlock::operator=(ExportedBlock&& other) noexcept {
  if (this != &other) {
    Close();
    bytes_ = std::exchange(other.bytes_, 0);
    granule_bytes_ = std::exchange(other.granule_bytes_, 0);
    descriptors_ = std::exchange(other.descriptors_, {});
  }
  return *this;
}

int ExportedBlock::ReleaseDescriptor(size_t granule) {
  return std::exchange(descriptors_[granule], kReleased);
}

void ExportedBlock::Close() {
  for (const int descriptor : descriptors_) {
    if (descriptor != kReleased) close(descriptor);
  }
  descriptors_.clear();
  bytes_ = 0;
  granule_bytes_ = 0;
}

}  // namespace firn
