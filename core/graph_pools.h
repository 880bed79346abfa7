// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books of graph-private pools: which there are, for whom they are open,
// which blocks belong to them, and which of these were freed and keep their
// place all the same.

#ifndef FIRN_CORE_GRAPH_POOLS_H_
#define FIRN_CORE_GRAPH_POOLS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/core/free_queue.h"
#include "firn/core/graph_pool_id.h"

namespace firn {

// To whom an allocation belongs, and for which stream it is.
struct GraphOwner {
  GraphPoolId pool{};
  uint64_t stream_id = 0;
};

// A graph uses the addresses that its capture saw whenever it is launched, on
// whatever stream. So what was allocated in such a pool keeps its place when it
// is freed (I12), and is used again within the pool alone, in the order of the
// stream that it was freed on: as the work that was captured there runs. Once
// the last user of a pool has given it up, what was freed in it is retired: it
// waits until all work is done, and is then anybody's.
//
// Blocks go by the key by which their owner tells them apart, streams and
// threads by numbers that are never used again. Makes no driver call. Thread
// safety: none; guarded by its owner.
class GraphPools {
 public:
  GraphPools() = default;
  GraphPools(const GraphPools&) = delete;
  GraphPools& operator=(const GraphPools&) = delete;

  // Opens the pool for these streams or, without any, for the thread; makes it
  // where there is none. Counts a use of it. FailedPrecondition: it is open, or
  // a stream or the thread has another one open; nothing has changed then.
  absl::Status Begin(GraphPoolId id, absl::Span<const uint64_t> stream_ids,
                     uint64_t thread);
  // FailedPrecondition: it is not open.
  absl::Status End(GraphPoolId id);
  // Gives up one use. With the last one the pool is gone: its freed blocks are
  // retired, those still live are nobody's. InvalidArgument: there is no such
  // pool; FailedPrecondition: it is open, and this is its last use.
  absl::Status Release(GraphPoolId id);

  bool any_open() const { return !users_.empty(); }
  // Those that are open, for a message: "graph-private pool 7".
  std::string OpenPools() const;
  // The pool that is open for the stream, else for the thread.
  std::optional<GraphOwner> OwnerFor(uint64_t stream_id, uint64_t thread) const;

  // --- Blocks ---
  // A block was allocated in a pool that is open.
  void Add(GraphPoolId id, uint64_t key, uint64_t requested_bytes);
  // Whether the block belongs to a pool that has not been released.
  bool Owns(uint64_t key) const {
    return !blocks_.empty() && blocks_.contains(key);
  }
  // A stream uses a block of a pool: once freed on another one, it is not
  // handed out again, as nothing orders the two.
  void NoteUse(uint64_t key, uint64_t stream_id);
  // A live block of a pool, at `address`, was freed on a stream: keeps it.
  void Keep(uint64_t key, const FreedBlock& block, uint64_t address,
            uint64_t stream_id);
  // Takes back a block of this arena and extent, aligned as asked for, that was
  // freed in the owner's pool on its stream, the latest first. It is live from
  // now on.
  std::optional<BlockStart> Take(const GraphOwner& owner, ArenaIndex arena,
                                 uint64_t quanta, uint64_t alignment_bytes,
                                 uint64_t requested_bytes);

  // --- What was freed in pools that are gone ---
  bool has_retired() const { return !retired_.empty(); }
  // In the order of their places; nothing is retired then.
  std::vector<BlockStart> TakeRetired();

  // --- Figures ---
  // Pools not yet released.
  uint64_t pools() const { return pools_.size(); }
  // Requested bytes of their blocks, live and freed.
  uint64_t bytes() const { return live_bytes_ + kept_bytes_; }
  // Of those, and of the retired ones, that were freed.
  uint64_t kept_bytes() const { return kept_bytes_; }
  uint64_t retired_bytes() const { return retired_bytes_; }
  // Blocks retired so far, to tell whether anything has changed.
  uint64_t retired_total() const { return retired_total_; }

  // Internal, quoting I12, unless each freed block `holds_place`, and the
  // figures are right.
  absl::Status CheckInvariants(
      absl::FunctionRef<bool(const FreedBlock& block)> holds_place) const;

 private:
  // Used on more than one stream: on none alone.
  static constexpr uint64_t kSeveralStreams = ~uint64_t{0};

  struct Block {
    GraphPoolId pool{};
    uint64_t requested_bytes = 0;
    uint64_t used_on = 0;  // a stream, beside that of its free; 0: none
    bool is_kept = false;
  };
  struct KeptBlock {
    uint64_t key = 0;
    uint64_t address = 0;
    FreedBlock block;
  };
  // The stream that blocks were freed on, their arena and their extent.
  using Shelf = std::tuple<uint64_t, ArenaIndex, uint64_t>;
  struct GraphPool {
    uint64_t uses = 0;
    bool is_open = false;
    // Oldest first.
    absl::flat_hash_map<Shelf, std::vector<KeptBlock>> kept;
    // Those that are not handed out again.
    std::vector<KeptBlock> set_aside;
  };
  // Streams and threads in one: threads come with `is_thread`.
  struct User {
    bool is_thread = false;
    uint64_t number = 0;
    bool operator<(const User& other) const {
      return is_thread != other.is_thread ? is_thread < other.is_thread
                                          : number < other.number;
    }
  };

  void Retire(const std::vector<KeptBlock>& blocks);

  // Few, and in order: messages name the first.
  std::map<GraphPoolId, GraphPool> pools_;
  // For whom pools are open.
  std::map<User, GraphPoolId> users_;
  absl::flat_hash_map<uint64_t, Block> blocks_;  // live or kept, by key
  std::vector<FreedBlock> retired_;
  uint64_t live_bytes_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t retired_bytes_ = 0;
  uint64_t retired_total_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_GRAPH_POOLS_H_
