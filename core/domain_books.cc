// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/domain_books.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

constexpr char kDefaultName[] = "default";

}  // namespace

Domain::Domain(std::shared_ptr<DomainBooks> books, DomainId id)
    : books_(std::move(books)), id_(id) {}

Domain::Domain(Domain&& other) noexcept
    : books_(std::move(other.books_)),
      id_(std::exchange(other.id_, DomainId::kDefault)) {}

Domain& Domain::operator=(Domain&& other) noexcept {
  if (this == &other) return *this;
  Close();
  books_ = std::move(other.books_);
  id_ = std::exchange(other.id_, DomainId::kDefault);
  return *this;
}

void Domain::Close() {
  if (id_ == DomainId::kDefault) return;
  books_->Close(id_);
  books_.reset();
  id_ = DomainId::kDefault;
}

DomainBooks::DomainBooks() {
  MutexLock lock(&mutex_);
  entries_[0].name = kDefaultName;
}

absl::StatusOr<DomainId> DomainBooks::Open(const std::string& name) {
  if (name.empty()) {
    return absl::InvalidArgumentError("name: empty; a domain needs one");
  }
  MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.name == name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "name: there is a domain \"", name, "\"; each needs its own"));
    }
  }
  // With the default one.
  if (entries_.size() > kMostDomains) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMostDomains,
                     " domains; give one up and free what lives there"));
  }
  const uint32_t id = last_id_.load(std::memory_order_relaxed) + 1;
  last_id_.store(id, std::memory_order_relaxed);
  entries_[id].name = name;
  return DomainId{id};
}

void DomainBooks::Close(DomainId id) {
  MutexLock lock(&mutex_);
  entries_[static_cast<uint32_t>(id)].is_closed = true;
}

void DomainBooks::Forget(DomainId id) {
  MutexLock lock(&mutex_);
  entries_.erase(static_cast<uint32_t>(id));
}

absl::Status DomainBooks::CheckOpen(DomainId id) const {
  if (id == DomainId::kDefault) return absl::OkStatus();
  MutexLock lock(&mutex_);
  const auto found = entries_.find(static_cast<uint32_t>(id));
  if (found != entries_.end() && !found->second.is_closed) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "domain: ", static_cast<uint32_t>(id),
      found == entries_.end() ? " is no domain of this pool"
                              : " has been given up by its owner"));
}

std::string DomainBooks::NameOf(DomainId id) const {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(static_cast<uint32_t>(id));
  return found == entries_.end() ? "" : found->second.name;
}

std::vector<DomainId> DomainBooks::Closed() const {
  MutexLock lock(&mutex_);
  std::vector<DomainId> closed;
  for (const auto& [id, entry] : entries_) {
    if (entry.is_closed) closed.push_back(DomainId{id});
  }
  return closed;
}

}  // namespace firn
