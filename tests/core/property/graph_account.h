// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The graph-private pools of a sequence of operations: which are open for whom,
// and which places their blocks keep.

#ifndef FIRN_TESTS_CORE_PROPERTY_GRAPH_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_GRAPH_ACCOUNT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "firn/core/graph_pool_id.h"
#include "firn/core/pool.h"
#include "tests/core/property/account.h"
#include "tests/core/property/use_account.h"

namespace firn::testing::property {

class GraphAccount : public Account {
 public:
  // Must outlive this object; it forgets a freed block after this one has heard
  // of it.
  explicit GraphAccount(const UseAccount* uses) : uses_(uses) {}

  bool any_open() const;
  // Whether any was ever opened.
  bool are_used() const { return are_used_; }
  bool IsOpen(GraphPoolId id) const;
  bool IsKnown(GraphPoolId id) const { return pools_.count(id) > 0; }
  bool IsLastUse(GraphPoolId id) const { return pools_.at(id).uses == 1; }
  // Whether one of the streams, or without any the thread, has a pool open.
  bool HasUser(const std::vector<StreamHandle>& streams) const;
  // Whether the live block belongs to a pool.
  bool Owns(const LiveBlock& block) const {
    return live_.count(reinterpret_cast<uintptr_t>(block.content.ptr)) > 0;
  }
  uint64_t reuses() const { return reuses_; }

  void Begin(Pool* pool, GraphPoolId id,
             const std::vector<StreamHandle>& streams);
  void End(GraphPoolId id);
  void Release(GraphPoolId id);

  void Added(const LiveBlock& block) override;
  void Removed(const LiveBlock& block) override;
  void StreamGone(StreamHandle stream) override;
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;
  void LetGo() override;

 private:
  struct GraphPool {
    uint64_t uses = 0;
    bool is_open = false;
    bool is_for_thread = false;
    std::set<StreamHandle> streams;
  };
  // A block that was freed.
  struct KeptBlock {
    GraphPoolId pool{};
    LiveBlock block;  // its stream is the one that it was freed on
    bool may_be_reused = false;
  };

  std::optional<GraphPoolId> OwnerFor(StreamHandle stream) const;
  // Takes a kept block back, if it is one, and checks that it may be.
  void TakeBack(const LiveBlock& block,
                const std::optional<GraphPoolId>& owner);
  void Fail(const LiveBlock& block, const char* what);

  const UseAccount* const uses_;
  Pool* pool_ = nullptr;
  std::map<GraphPoolId, GraphPool> pools_;
  std::map<uintptr_t, std::pair<GraphPoolId, uint64_t>> live_;  // with bytes
  std::map<uintptr_t, KeptBlock> kept_;
  bool are_used_ = false;
  uint64_t reuses_ = 0;
  std::string failure_;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_GRAPH_ACCOUNT_H_
