// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which domains a pool has. Shared by the pool and its Domains, which may go
// after it.

#ifndef FIRN_CORE_DOMAIN_BOOKS_H_
#define FIRN_CORE_DOMAIN_BOOKS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/domain.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Ids are given once. Thread safety: all methods may be called from any thread;
// its lock is the last one taken.
class DomainBooks {
 public:
  static constexpr size_t kMostDomains = 64;

  DomainBooks();
  DomainBooks(const DomainBooks&) = delete;
  DomainBooks& operator=(const DomainBooks&) = delete;

  // InvalidArgument: no name, or one that is in use; ResourceExhausted: there
  // are kMostDomains.
  absl::StatusOr<DomainId> Open(const std::string& name);
  // Nothing can be allocated in it from now on.
  void Close(DomainId id);
  // Nothing of it is left: its name may be used again.
  void Forget(DomainId id);

  // Whether any was ever opened.
  bool are_used() const { return last_id_.load(std::memory_order_relaxed) > 0; }
  // InvalidArgument unless blocks may be allocated in it.
  absl::Status CheckOpen(DomainId id) const;
  std::string NameOf(DomainId id) const;
  std::vector<DomainId> Closed() const;

 private:
  struct Entry {
    std::string name;
    bool is_closed = false;
  };

  mutable Mutex mutex_;
  absl::btree_map<uint32_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by id
  std::atomic<uint32_t> last_id_{0};
};

}  // namespace firn

#endif  // FIRN_CORE_DOMAIN_BOOKS_H_
