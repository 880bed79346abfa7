// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/planner_moves.h"

#include <algorithm>

namespace firn {
namespace {

void ClearLoad(PlannerHosts::Load* load) {
  load->rows.must_be_clear.clear();
  load->rows.part.clear();
  load->rows.touched.clear();
  load->live_quanta = 0;
  load->vgs.clear();
}

}  // namespace

uint32_t PlannerMoves::CountRuns(absl::Span<const uint32_t> vgs) {
  if (vgs.size() == 1) return 1;
  order_.clear();
  for (const uint32_t vg : vgs) order_.push_back(snapshot_.vgs[vg].vg.value());
  std::sort(order_.begin(), order_.end());
  uint32_t runs = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i == 0 || order_[i] != order_[i - 1] + 1) ++runs;
  }
  return runs;
}

void PlannerMoves::Fill(absl::Span<const uint32_t> vgs) {
  item_count_ = vgs.size();
  if (items_.size() < item_count_) items_.resize(item_count_);
  order_.assign(vgs.begin(), vgs.end());
  std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
    const uint32_t live_a = snapshot_.vgs[a].live_quanta;
    const uint32_t live_b = snapshot_.vgs[b].live_quanta;
    return live_a != live_b ? live_a > live_b : a < b;
  });
  for (size_t i = 0; i < item_count_; ++i) {
    Item& item = items_[i];
    item.vg = order_[i];
    item.address = snapshot_.vgs[item.vg].vg.value();
    item.is_placed = false;
  }
  if (!keeps_neighbours_) return;
  by_address_.resize(item_count_);
  for (size_t i = 0; i < item_count_; ++i) by_address_[i] = i;
  std::sort(by_address_.begin(), by_address_.end(), [this](size_t a, size_t b) {
    return items_[a].address < items_[b].address;
  });
  for (size_t i = 0; i < item_count_; ++i) {
    Item& item = items_[by_address_[i]];
    const bool continues =
        i > 0 && items_[by_address_[i - 1]].address + 1 == item.address;
    item.run_begin = continues ? items_[by_address_[i - 1]].run_begin : i;
  }
}

absl::Span<const size_t> PlannerMoves::RunOf(const Item& item) const {
  size_t end = item.run_begin;
  while (end < item_count_ &&
         items_[by_address_[end]].run_begin == item.run_begin) {
    ++end;
  }
  return absl::MakeConstSpan(by_address_)
      .subspan(item.run_begin, end - item.run_begin);
}

bool PlannerMoves::MoveOut(size_t rank, absl::Span<const uint32_t> vgs,
                           size_t end, std::vector<PlannedMove>* moves) {
  Fill(vgs);
  for (size_t i = 0; i < item_count_; ++i) {
    if (items_[i].is_placed || Place(&items_[i], end)) continue;
    hosts_->UndoAll();
    return false;
  }
  hosts_->Keep();
  for (size_t i = 0; i < item_count_; ++i) {
    PlannedMove move;
    move.vg = items_[i].vg;
    move.from = hosts_->granule(rank);
    move.to = hosts_->granule(items_[i].rank);
    moves->push_back(move);
  }
  return true;
}

bool PlannerMoves::Place(Item* item, size_t end) {
  ClearLoad(&item->load);
  hosts_->Add(item->vg, &item->load);
  const size_t first = hosts_->Find(item->load, end);
  if (first == end) return false;
  if (!keeps_neighbours_) {
    PlaceOn(first, item);
    return true;
  }
  const size_t with_neighbour = HostOfNeighbour(*item, first, end);
  if (with_neighbour != end) {
    PlaceOn(with_neighbour, item);
  } else if (!PlaceRun(*item, first, end)) {
    PlaceOn(first, item);
  }
  return true;
}

size_t PlannerMoves::HostOfNeighbour(const Item& item, size_t first,
                                     size_t end) const {
  for (const size_t other : RunOf(item)) {
    const Item& neighbour = items_[other];
    if (!neighbour.is_placed || (neighbour.address != item.address + 1 &&
                                 neighbour.address + 1 != item.address)) {
      continue;
    }
    if (hosts_->IsFitTaker(item.load, neighbour.rank, first, end)) {
      return neighbour.rank;
    }
  }
  return end;
}

bool PlannerMoves::PlaceRun(const Item& item, size_t first, size_t end) {
  const absl::Span<const size_t> run = RunOf(item);
  if (run.size() == 1) return false;
  ClearLoad(&run_load_);
  for (const size_t other : run) {
    if (items_[other].is_placed) return false;
    hosts_->Add(items_[other].vg, &run_load_);
  }
  const size_t rank = hosts_->FindAmongTakers(run_load_, first, end);
  if (rank == end) return false;
  hosts_->TakeIn(rank, run_load_);
  for (const size_t other : run) {
    items_[other].is_placed = true;
    items_[other].rank = rank;
  }
  return true;
}

void PlannerMoves::PlaceOn(size_t rank, Item* item) {
  hosts_->TakeIn(rank, item->load);
  item->is_placed = true;
  item->rank = rank;
}

}  // namespace firn
