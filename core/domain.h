// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Isolation domains: tenants of one pool that share no granule and leave no
// contents to each other, with limits of their own.
//
//   absl::StatusOr<firn::Domain> tenant = pool->CreateDomain(
//       {.name = "tenant 7", .limit = {.hard_bytes = uint64_t{4} << 30}});
//   if (!tenant.ok()) return tenant.status();
//   absl::StatusOr<void*> block =
//       pool->Allocate(1 << 20, {.domain = tenant->id()});

#ifndef FIRN_CORE_DOMAIN_H_
#define FIRN_CORE_DOMAIN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "firn/core/memory_limit.h"

namespace firn {

class DomainBooks;
class Pool;

// Names a domain in AllocateOptions. kDefault is what is in none.
enum class DomainId : uint32_t { kDefault = 0 };

struct DomainOptions {
  // For statistics and messages; not empty, and no other domain's.
  std::string name;
  // Of the granules mapped for the domain.
  MemoryLimit limit;
};

// A domain as its owner holds it. When it goes, nothing can be allocated in the
// domain any more; blocks that live there stay valid until they are freed, and
// its granules serve others then. Move-only; may go on any thread, at any time,
// also after its pool is gone. Thread safety: as of a pointer.
class Domain {
 public:
  // Holds none.
  Domain() = default;
  Domain(Domain&& other) noexcept;
  Domain& operator=(Domain&& other) noexcept;
  ~Domain() { Close(); }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Gives the domain up before its time; holds none afterwards.
  void Close();

  // kDefault if it holds none.
  DomainId id() const { return id_; }

 private:
  friend class Pool;
  Domain(std::shared_ptr<DomainBooks> books, DomainId id);

  std::shared_ptr<DomainBooks> books_ = nullptr;
  DomainId id_ = DomainId::kDefault;
};

// What Pool::GetDomainStats reports of a domain.
struct DomainStats {
  DomainId id = DomainId::kDefault;
  std::string name;  // "default" for what is in none
  MemoryLimit limit;
  bool is_closed = false;  // given up, but blocks of it are live
  uint64_t live_bytes = 0;
  uint64_t live_allocations = 0;
  uint64_t used_bytes = 0;       // of granules with something live
  uint64_t mapped_bytes = 0;     // of granules mapped for it, used or not
  uint64_t host_used_bytes = 0;  // of those of host memory with something live
  // Since its creation.
  uint64_t allocations = 0;
  uint64_t failed_allocations = 0;
  uint64_t zeroed_bytes = 0;  // that came from others, or are exportable
};

}  // namespace firn

#endif  // FIRN_CORE_DOMAIN_H_
