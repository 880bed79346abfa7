// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/snapshot_export.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/debugging/symbolize.h"
#include "absl/strings/str_cat.h"
#include "firn/core/pickle_writer.h"

namespace firn {
namespace {

// The instruction that called lies before the address it returns to.
const void* CallOf(const void* frame) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(frame) - 1);
}

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const MemorySnapshot& snapshot)
      : snapshot_(snapshot) {}

  std::string Write() && {
    writer_.BeginDict();
    writer_.Text("segments");
    WriteSegments();
    writer_.Text("device_traces");
    WriteTraces();
    writer_.Text("allocator_settings");
    WriteSettings();
    writer_.Text("external_annotations");
    WritePasses();
    writer_.EndDict();
    return std::move(writer_).Finish();
  }

 private:
  void Integer(absl::string_view key, int64_t value) {
    writer_.Text(key);
    writer_.Integer(value);
  }
  void Unsigned(absl::string_view key, uint64_t value) {
    writer_.Text(key);
    writer_.Unsigned(value);
  }
  void Text(absl::string_view key, absl::string_view value) {
    writer_.Text(key);
    writer_.Text(value);
  }
  void Bool(absl::string_view key, bool value) {
    writer_.Text(key);
    writer_.Bool(value);
  }
  static uint64_t NumberOf(StreamHandle stream) {
    return reinterpret_cast<uintptr_t>(stream);
  }

  // --- Segments ---
  void WriteSegments() {
    // The last allocation at each address.
    absl::flat_hash_map<uint64_t, const HistoryEvent*> allocation_of;
    for (const HistoryEvent& event : snapshot_.history.events) {
      if (event.kind == HistoryKind::kAllocate && !event.stack.empty()) {
        allocation_of[event.address] = &event;
      }
    }
    writer_.BeginList();
    for (const MemorySegment& segment : snapshot_.segments) {
      uint64_t allocated_bytes = 0;
      uint64_t active_bytes = 0;
      uint64_t requested_bytes = 0;
      uint64_t largest_bytes = 0;
      for (const MemoryBlock& block : segment.blocks) {
        if (block.state == MemoryBlockState::kInactive) continue;
        active_bytes += block.bytes;
        requested_bytes += block.requested_bytes;
        largest_bytes = std::max(largest_bytes, block.bytes);
        if (block.state == MemoryBlockState::kAllocated) {
          allocated_bytes += block.bytes;
        }
      }
      writer_.BeginDict();
      Integer("device", snapshot_.device_ordinal);
      Unsigned("address", segment.address);
      Unsigned("total_size", segment.bytes);
      Unsigned("allocated_size", allocated_bytes);
      Unsigned("active_size", active_bytes);
      Unsigned("requested_size", requested_bytes);
      // Its blocks may be of any.
      Integer("stream", 0);
      Text("segment_type",
           largest_bytes >= snapshot_.granule_bytes ? "large" : "small");
      writer_.Text("segment_pool_id");
      writer_.BeginTuple();
      writer_.Integer(0);
      writer_.Integer(static_cast<int64_t>(segment.domain));
      writer_.EndTuple();
      Bool("is_expandable", snapshot_.granule_bytes > 0);
      writer_.Text("frames");
      writer_.BeginList();
      writer_.EndList();
      writer_.Text("blocks");
      writer_.BeginList();
      for (const MemoryBlock& block : segment.blocks) {
        const auto found = allocation_of.find(block.address);
        WriteBlock(block,
                   found != allocation_of.end() ? found->second : nullptr);
      }
      writer_.EndList();
      writer_.EndDict();
    }
    writer_.EndList();
  }

  void WriteBlock(const MemoryBlock& block, const HistoryEvent* allocation) {
    writer_.BeginDict();
    Unsigned("address", block.address);
    Unsigned("size", block.bytes);
    Unsigned("requested_size", block.requested_bytes);
    absl::string_view state = "inactive";
    if (block.state == MemoryBlockState::kAllocated) state = "active_allocated";
    if (block.state == MemoryBlockState::kPendingFree) {
      state = "active_pending_free";
    }
    Text("state", state);
    writer_.Text("frames");
    const bool is_live = block.state == MemoryBlockState::kAllocated;
    WriteFrames(block.tag, is_live ? allocation : nullptr);
    writer_.EndDict();
  }

  // --- Frames ---
  // The tag as if it were the innermost function, so that it is shown.
  void WriteFrames(Tag tag, const HistoryEvent* event) {
    writer_.BeginList();
    const size_t index = static_cast<size_t>(tag);
    if (tag != Tag::kUntagged && index < snapshot_.tag_names.size()) {
      const auto found = tag_frames_.find(tag);
      if (found != tag_frames_.end()) {
        writer_.Again(found->second);
      } else {
        tag_frames_[tag] =
            WriteFrame(absl::StrCat("tag: ", snapshot_.tag_names[index]), "");
      }
    }
    if (event != nullptr) {
      for (const void* frame : event->stack) {
        const auto found = frames_.find(frame);
        if (found != frames_.end()) {
          writer_.Again(found->second);
          continue;
        }
        Dl_info info;
        const bool is_known =
            dladdr(CallOf(frame), &info) != 0 && info.dli_fname != nullptr;
        frames_[frame] =
            WriteFrame(SymboliseFrame(frame), is_known ? info.dli_fname : "");
      }
    }
    writer_.EndList();
  }

  uint32_t WriteFrame(absl::string_view name, absl::string_view file) {
    writer_.BeginDict();
    Text("name", name);
    Text("filename", file);
    Integer("line", 0);
    writer_.EndDict();
    return writer_.Remember();
  }

  // --- Traces ---
  void WriteTraces() {
    writer_.BeginList();
    for (int device = 0; device <= snapshot_.device_ordinal; ++device) {
      writer_.BeginList();
      if (device == snapshot_.device_ordinal) WriteTrace();
      writer_.EndList();
    }
    writer_.EndList();
  }

  void WriteTrace() {
    for (const HistoryEvent& event : snapshot_.history.events) {
      switch (event.kind) {
        case HistoryKind::kAllocate:
          // A freed block that its own stream has taken again.
          Complete(event);
          WriteEvent("alloc", event);
          break;
        case HistoryKind::kFree:
          WriteEvent("free_requested", event);
          WriteEvent("free_completed", event);
          break;
        case HistoryKind::kFreeRequested:
          WriteEvent("free_requested", event);
          pending_[event.address] = event.bytes;
          break;
        case HistoryKind::kFreeCompleted:
          // Even if its request is lost: its allocation may be older still.
          pending_[event.address] = event.bytes;
          Complete(event);
          break;
        case HistoryKind::kAllocateFailure:
          WriteEvent("oom", event);
          break;
        case HistoryKind::kMap:
          WriteEvent("segment_map", event);
          break;
        case HistoryKind::kUnmap:
          WriteEvent("segment_unmap", event);
          break;
        case HistoryKind::kMove:
          WriteEvent("segment_unmap", event);
          WriteEvent("segment_map", event);
          break;
        case HistoryKind::kPassBegin:
        case HistoryKind::kPassEnd:
          break;
      }
    }
  }

  void Complete(const HistoryEvent& event) {
    const auto found = pending_.find(event.address);
    if (found == pending_.end()) return;
    HistoryEvent completed = event;
    completed.bytes = found->second;
    completed.tag = Tag::kUntagged;
    pending_.erase(found);
    WriteEvent("free_completed", completed);
  }

  void WriteEvent(absl::string_view action, const HistoryEvent& event) {
    writer_.BeginDict();
    Text("action", action);
    if (event.kind == HistoryKind::kAllocateFailure) {
      // Of the device: not known.
      Integer("device_free", 0);
    } else {
      Unsigned("addr", event.address);
    }
    Unsigned("size", event.bytes);
    Unsigned("stream", NumberOf(event.stream));
    Integer("time_us", event.time_ns / 1000);
    writer_.Text("frames");
    WriteFrames(event.tag, &event);
    writer_.EndDict();
  }

  // --- The rest ---
  // What does not apply is as in an allocator that has been told nothing.
  void WriteSettings() {
    writer_.BeginDict();
    Text("PYTORCH_CUDA_ALLOC_CONF", "");
    Integer("max_split_size", -1);
    writer_.Text("garbage_collection_threshold");
    writer_.Real(0);
    Bool("expandable_segments", snapshot_.granule_bytes > 0);
    Integer("pinned_num_register_threads", 1);
    Bool("release_lock_on_cudamalloc", false);
    Bool("pinned_use_cuda_host_register", false);
    writer_.Text("roundup_power2_divisions");
    writer_.BeginDict();
    writer_.EndDict();
    writer_.EndDict();
  }

  void WritePasses() {
    writer_.BeginList();
    for (const HistoryEvent& event : snapshot_.history.events) {
      const bool begins = event.kind == HistoryKind::kPassBegin;
      if (!begins && event.kind != HistoryKind::kPassEnd) continue;
      writer_.BeginDict();
      Text("name", "compaction pass");
      Text("stage", begins ? "START" : "END");
      Integer("device", snapshot_.device_ordinal);
      Integer("time_us", event.time_ns / 1000);
      writer_.EndDict();
    }
    writer_.EndList();
  }

  const MemorySnapshot& snapshot_;
  PickleWriter writer_;
  // Frames that were written.
  absl::flat_hash_map<const void*, uint32_t> frames_;
  absl::flat_hash_map<Tag, uint32_t> tag_frames_;
  // Bytes of blocks whose frees are not done, by address.
  absl::flat_hash_map<uint64_t, uint64_t> pending_;
};

}  // namespace

std::string SnapshotToPickle(const MemorySnapshot& snapshot) {
  return SnapshotWriter(snapshot).Write();
}

std::string SymboliseFrame(const void* frame) {
  char name[512];
  if (absl::Symbolize(CallOf(frame), name, sizeof(name))) return name;
  return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(frame)));
}

}  // namespace firn
