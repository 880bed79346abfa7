// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_entries.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/pickle_document.h"
#include "bench/traces/unpickler.h"

namespace firn::bench {
namespace {

// PyTorch writes fewer than 20 items. A file can name one dict very often and
// keys are looked for one by one, so a long dict would take forever.
constexpr size_t kMaxEntryItems = 64;

// Reads one device's list of entries. Where names the list in messages.
class EntryReader {
 public:
  EntryReader(const PickleDocument& document, std::string where)
      : document_(document), where_(std::move(where)) {}

  absl::Status CheckItems(const PickleValue& entry, size_t number) const {
    // Keys and values.
    const size_t items = document_.Items(entry).size() / 2;
    if (entry.kind != PickleKind::kDict || items <= kMaxEntryItems) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(where_, "[", number, "]: a dict of ", items,
                     " items; an entry has at most ", kMaxEntryItems));
  }

  // Whether `entry` is one that is used; `allocates` says which.
  bool IsUsed(const PickleValue& entry, bool* allocates) const {
    const PickleValue* action = document_.Find(entry, "action");
    if (action == nullptr) return false;
    *allocates = document_.IsText(*action, "alloc");
    return *allocates || document_.IsText(*action, "free_completed");
  }

  absl::Status Read(const PickleValue& value, size_t number,
                    TorchTraceEntry* entry) const {
    entry->number = static_cast<uint32_t>(number);
    absl::Status status = ReadField(value, number, "addr", &entry->address);
    if (status.ok()) status = ReadField(value, number, "size", &entry->bytes);
    if (status.ok()) {
      status = ReadField(value, number, "stream", &entry->stream);
    }
    if (!status.ok()) return status;
    entry->time_us = static_cast<int64_t>(number);
    if (document_.Find(value, "time_us") == nullptr) return absl::OkStatus();
    uint64_t time_us = 0;
    status = ReadField(value, number, "time_us", &time_us);
    entry->time_us = static_cast<int64_t>(time_us);
    return status;
  }

 private:
  absl::Status ReadField(const PickleValue& entry, size_t number,
                         absl::string_view key, uint64_t* field) const {
    const PickleValue* value = document_.Find(entry, key);
    std::string reason;
    if (value == nullptr) {
      reason = "missing";
    } else if (value->kind == PickleKind::kHugeInteger) {
      reason = "a number beyond 64 bits";
    } else if (value->kind != PickleKind::kInteger) {
      reason = "not a whole number";
    } else if (value->integer < 0) {
      reason = absl::StrCat(value->integer, " is negative; expected 0 or more");
    } else {
      *field = static_cast<uint64_t>(value->integer);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(where_, "[", number, "]: ", key, ": ", reason));
  }

  const PickleDocument& document_;
  std::string where_;
};

std::string ListName(absl::string_view file, size_t device) {
  return absl::StrCat(file, ": device_traces[", device, "]");
}

// The number of the device whose list has most entries that are used; sets
// `most` to how many. InvalidArgument where an entry of any is too long.
absl::StatusOr<size_t> BusiestDevice(absl::string_view file,
                                     const PickleDocument& document,
                                     const std::vector<PickleValue>& devices,
                                     size_t* most) {
  // A hostile file can name the same long list many times over.
  absl::flat_hash_map<uint64_t, size_t> counted;
  size_t busiest = 0;
  *most = 0;
  for (size_t device = 0; device < devices.size(); ++device) {
    if (devices[device].kind != PickleKind::kList) continue;
    if (!counted.emplace(devices[device].index, 0).second) continue;
    const EntryReader reader(document, ListName(file, device));
    const std::vector<PickleValue>& entries = document.Items(devices[device]);
    size_t used = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      absl::Status status = reader.CheckItems(entries[i], i);
      if (!status.ok()) return status;
      bool allocates = false;
      if (reader.IsUsed(entries[i], &allocates)) ++used;
    }
    if (used > *most) {
      *most = used;
      busiest = device;
    }
  }
  return busiest;
}

}  // namespace

absl::StatusOr<std::vector<TorchTraceEntry>> ReadTorchSnapshot(
    absl::string_view file, std::string data) {
  absl::StatusOr<PickleDocument> document =
      Unpickler::Unpickle(file, std::move(data));
  if (!document.ok()) return document.status();
  const PickleValue* traces = document->Find(document->root(), "device_traces");
  if (traces == nullptr || traces->kind != PickleKind::kList) {
    return absl::InvalidArgumentError(
        absl::StrCat(file,
                     ": a pickle without a list 'device_traces', so no "
                     "PyTorch memory snapshot; "
                     "torch.cuda.memory._dump_snapshot writes one"));
  }
  const std::vector<PickleValue>& devices = document->Items(*traces);
  size_t used = 0;
  absl::StatusOr<size_t> device =
      BusiestDevice(file, *document, devices, &used);
  if (!device.ok()) return device.status();
  if (used == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        file,
        ": 'device_traces' holds no allocation or free; call "
        "torch.cuda.memory._record_memory_history() before what is to be "
        "recorded"));
  }
  std::vector<TorchTraceEntry> entries;
  entries.reserve(used);
  const EntryReader reader(*document, ListName(file, *device));
  const std::vector<PickleValue>& values = document->Items(devices[*device]);
  if (values.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": more than 2^32 entries"));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    TorchTraceEntry entry;
    if (!reader.IsUsed(values[i], &entry.allocates)) continue;
    absl::Status status = reader.Read(values[i], i, &entry);
    if (!status.ok()) return status;
    // No memory: neither the allocation nor its free.
    if (entry.bytes > 0) entries.push_back(entry);
  }
  return entries;
}

}  // namespace firn::bench
