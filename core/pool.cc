// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool.h"

#include <utility>

#include "absl/memory/memory.h"
#include "firn/core/pool_impl.h"

namespace firn {

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(PoolOptions options) {
  absl::StatusOr<std::unique_ptr<Impl>> impl = Impl::Create(std::move(options));
  if (!impl.ok()) return impl.status();
  return absl::WrapUnique(new Pool(std::move(*impl)));
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

absl::StatusOr<void*> Pool::Allocate(uint64_t bytes, AllocateOptions options) {
  return impl_->Allocate(bytes, options);
}

absl::Status Pool::Free(void* ptr, StreamHandle stream) {
  return impl_->Free(ptr, stream);
}

absl::Status Pool::RecordUse(const void* ptr, StreamHandle stream) {
  return impl_->RecordUse(ptr, stream);
}

absl::Status Pool::ReleaseStream(StreamHandle stream) {
  return impl_->ReleaseStream(stream);
}

absl::StatusOr<CompactionReport> Pool::Compact(CompactOptions options) {
  return impl_->Compact(options);
}

absl::StatusOr<uint64_t> Pool::Trim(uint64_t keep_bytes) {
  return impl_->Trim(keep_bytes);
}

PoolStats Pool::GetStats() const { return impl_->GetStats(); }

PoolUsage Pool::GetUsage() const { return impl_->GetUsage(); }

absl::StatusOr<uint64_t> Pool::Generation(const void* ptr) const {
  return impl_->Generation(ptr);
}

LaunchGate* Pool::launch_gate() { return impl_->launch_gate(); }

absl::Status Pool::CheckInvariants() const { return impl_->CheckInvariants(); }

}  // namespace firn
