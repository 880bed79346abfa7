// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/domain_operations.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

// The name with this number; some are none that a domain may have.
std::string NameOfDomain(uint32_t number) {
  if (number == 5) return "default";
  return absl::StrCat("domain ", number);
}

uint64_t MappedBytes(const Pool& pool, DomainId id) {
  for (const DomainStats& stats : pool.GetDomainStats()) {
    if (stats.id == id) return stats.mapped_bytes;
  }
  return 0;
}

void ExpectUnknownRefused(State& state) {
  const DomainId unknown = state.domains().Unknown();
  const PoolStats before = state.pool().GetStats();
  AllocateOptions options;
  options.domain = unknown;
  state.Expect(
      absl::IsInvalidArgument(state.pool().Allocate(512, options).status()),
      "Allocate: took a domain that there is not");
  state.Expect(absl::IsInvalidArgument(
                   state.pool().SetDomainLimit(unknown, MemoryLimit())),
               "SetDomainLimit: took a domain that there is not");
  state.ExpectUnchanged("an unknown domain", before);
}

bool IsOpenDescriptor(int descriptor) {
  return fcntl(descriptor, F_GETFD) != -1;
}

}  // namespace

MemoryLimit DrawLimit(Choices& choices, const Setting& setting) {
  MemoryLimit limit;
  if (choices.OneIn(2)) return limit;
  const uint64_t capacity = setting.capacity_bytes();
  if (!choices.OneIn(4)) {
    limit.hard_bytes = choices.Below(capacity + setting.granule_bytes / 4) + 1;
  }
  if (choices.OneIn(2)) {
    const uint64_t most = limit.hard_bytes == 0 ? capacity : limit.hard_bytes;
    limit.soft_bytes = choices.Below(most + most / 8) + 1;
  }
  return limit;
}

void CreateDomain::Perform(State& state) const {
  DomainAccount& domains = state.domains();
  if (domains.is_full()) return;
  ExpectUnknownRefused(state);
  const PoolStats before = state.pool().GetStats();
  DomainOptions options;
  const absl::Status nameless = state.pool().CreateDomain(options).status();
  state.Expect(absl::IsInvalidArgument(nameless) ||
                   (state.was_faulted() && !nameless.ok()),
               "CreateDomain: took no name");
  options.name = NameOfDomain(name);
  options.limit.hard_bytes = hard_bytes;
  options.limit.soft_bytes = soft_bytes;
  absl::StatusOr<Domain> domain = state.pool().CreateDomain(options);
  const bool is_valid =
      IsValidLimit(options.limit, before.granule_bytes, before.capacity_bytes);
  if (domain.ok()) {
    state.Expect(is_valid && !domains.IsTaken(options.name),
                 "CreateDomain: took what it must refuse");
    return state.Expect(
        domains.Add(*std::move(domain), options, before.granule_bytes));
  }
  state.Expect((absl::IsInvalidArgument(domain.status()) &&
                (!is_valid || domains.MayBeTaken(options.name))) ||
                   state.was_faulted(),
               absl::StrCat("CreateDomain: ", domain.status().ToString()));
}

void SetDomainLimit::Perform(State& state) const {
  const DomainId id = state.domains().Pick(domain);
  if (id == DomainId::kDefault) return;
  MemoryLimit limit;
  limit.hard_bytes = hard_bytes;
  limit.soft_bytes = soft_bytes;
  const PoolStats before = state.pool().GetStats();
  const uint64_t mapped_bytes = MappedBytes(state.pool(), id);
  const absl::Status status = state.pool().SetDomainLimit(id, limit);
  if (IsValidLimit(limit, before.granule_bytes, before.capacity_bytes)) {
    state.Expect(status);
    state.domains().SetLimit(id, limit, before.granule_bytes, mapped_bytes);
  } else {
    state.Expect(absl::IsInvalidArgument(status),
                 absl::StrCat("SetDomainLimit: ", status.ToString()));
  }
  state.ExpectUnchanged("SetDomainLimit", before);
}

void SetLimit::Perform(State& state) const {
  MemoryLimit limit;
  limit.hard_bytes = hard_bytes;
  limit.soft_bytes = soft_bytes;
  const PoolStats before = state.pool().GetStats();
  const absl::Status status = state.pool().SetLimit(limit);
  if (!IsValidLimit(limit, before.granule_bytes, before.capacity_bytes)) {
    state.Expect(absl::IsInvalidArgument(status),
                 absl::StrCat("SetLimit: ", status.ToString()));
    return state.ExpectUnchanged("a refused SetLimit", before);
  }
  const PoolStats after = state.pool().GetStats();
  state.limits().Set(limit, before);
  state.Expect(status.ok() || state.was_faulted(),
               absl::StrCat("SetLimit: ", status.ToString()));
  state.Expect(after.used_bytes <= before.used_bytes &&
                   after.held_bytes <= before.held_bytes,
               "SetLimit took memory");
  if (status.ok() && !state.is_inside() && !state.graphs().any_open()) {
    state.Expect(
        after.held_bytes <= std::max(after.soft_limit_bytes, after.used_bytes),
        absl::StrCat("SetLimit kept more than it had to: ",
                     Difference(before, after)));
  }
}

void Export::Perform(State& state) const {
  LiveBlock* chosen = state.block(block);
  if (chosen == nullptr) return;
  std::vector<LiveBlock>& blocks = state.shadow().blocks();
  if (seeks) {
    const size_t first = state.IndexOf(*chosen);
    for (size_t i = 0; i < blocks.size(); ++i) {
      LiveBlock& candidate = blocks[(first + i) % blocks.size()];
      if (candidate.memory_class != MemoryClass::kExportable) continue;
      chosen = &candidate;
      break;
    }
  }
  const PoolStats before = state.pool().GetStats();
  absl::StatusOr<ExportedBlock> exported =
      state.pool().Export(chosen->content.ptr);
  if (chosen->memory_class != MemoryClass::kExportable) {
    state.Expect(absl::IsFailedPrecondition(exported.status()) ||
                     (state.was_faulted() && !exported.ok()),
                 absl::StrCat("Export of a block of another class: ",
                              exported.status().ToString()));
    return state.ExpectUnchanged("a refused Export", before);
  }
  // After an error as well.
  state.NoteExport(chosen);
  if (!exported.ok()) {
    return state.Expect(state.was_faulted(),
                        absl::StrCat("Export: ", exported.status().ToString()));
  }
  const uint64_t granule = before.granule_bytes;
  state.Expect(exported->bytes() == chosen->content.bytes &&
                   exported->granule_bytes() == granule &&
                   exported->granule_count() ==
                       (chosen->content.bytes + granule - 1) / granule,
               "Export: not what the block is");
  std::vector<int> descriptors;
  for (size_t i = 0; i < exported->granule_count(); ++i) {
    descriptors.push_back(exported->descriptor(i));
    state.Expect(IsOpenDescriptor(descriptors.back()),
                 "Export: a descriptor is not open");
  }
  state.ExpectUnchanged("Export", before);
  if (keeps) return state.KeepExport(*std::move(exported));
  exported->Close();
  for (const int descriptor : descriptors) {
    state.Expect(!IsOpenDescriptor(descriptor),
                 "ExportedBlock: a descriptor was not closed");
  }
}

}  // namespace firn::testing::property
