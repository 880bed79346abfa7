// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/stats_fields.h"

namespace firn {
namespace {

// How a row is written.
template <typename Stats, typename Value>
constexpr StatsField<Stats> Row(StatKind kind, StatUnit unit,
                                absl::string_view name, Value Stats::*member,
                                absl::string_view help) {
  return {name, member, kind, unit, help};
}

template <typename Stats, typename Value>
constexpr StatsField<Stats> Name(absl::string_view name, Value Stats::*member,
                                 absl::string_view help) {
  return Row(StatKind::kName, StatUnit::kNone, name, member, help);
}

template <typename Stats>
constexpr StatsField<Stats> Fact(absl::string_view name,
                                 std::string Stats::*member,
                                 absl::string_view help) {
  return Row(StatKind::kFact, StatUnit::kNone, name, member, help);
}

template <typename Stats>
constexpr StatsField<Stats> Flag(absl::string_view name, bool Stats::*member,
                                 absl::string_view help) {
  return Row(StatKind::kGauge, StatUnit::kNone, name, member, help);
}

template <typename Stats, typename Value>
constexpr StatsField<Stats> Bytes(absl::string_view name, Value Stats::*member,
                                  absl::string_view help) {
  return Row(StatKind::kGauge, StatUnit::kBytes, name, member, help);
}

template <typename Stats>
constexpr StatsField<Stats> Count(absl::string_view name,
                                  uint64_t Stats::*member,
                                  absl::string_view help) {
  return Row(StatKind::kGauge, StatUnit::kCount, name, member, help);
}

template <typename Stats, typename Value>
constexpr StatsField<Stats> Ratio(absl::string_view name, Value Stats::*member,
                                  absl::string_view help) {
  return Row(StatKind::kGauge, StatUnit::kNone, name, member, help);
}

template <typename Stats>
constexpr StatsField<Stats> BytesSoFar(absl::string_view name,
                                       uint64_t Stats::*member,
                                       absl::string_view help) {
  return Row(StatKind::kCounter, StatUnit::kBytes, name, member, help);
}

template <typename Stats>
constexpr StatsField<Stats> CountSoFar(absl::string_view name,
                                       uint64_t Stats::*member,
                                       absl::string_view help) {
  return Row(StatKind::kCounter, StatUnit::kCount, name, member, help);
}

constexpr StatsField<PoolStats> kPoolStatsFields[] = {
    Fact("backend", &PoolStats::backend, "cuda or cpu"),
    Fact("device_name", &PoolStats::device_name, "As the device calls itself"),
    Fact("driver_reason", &PoolStats::driver_reason,
         "Why this driver was chosen"),
    Flag("moving", &PoolStats::moving, "Whether live memory may move"),
    Fact("moving_reason", &PoolStats::moving_reason,
         "Why live memory may move, or may not"),
    Bytes("granule_bytes", &PoolStats::granule_bytes,
          "A granule; 0 where there are none"),
    Bytes("capacity_bytes", &PoolStats::capacity_bytes,
          "What the pool may ever hold"),
    Bytes("limit_bytes", &PoolStats::limit_bytes, "What the pool may hold now"),
    Bytes(
        "soft_limit_bytes", &PoolStats::soft_limit_bytes,
        "What the pool may hold now unless an allocation would fail otherwise"),

    Bytes("live_bytes", &PoolStats::live_bytes, "Requested bytes handed out"),
    Count("live_allocations", &PoolStats::live_allocations,
          "Allocations not freed"),
    Bytes("used_bytes", &PoolStats::used_bytes,
          "Granules with at least one byte of an allocation"),
    Bytes("held_bytes", &PoolStats::held_bytes,
          "Physical memory the pool owns, used or not"),
    Bytes("cached_bytes", &PoolStats::cached_bytes,
          "Part of held: mapped nowhere"),
    Bytes("pending_free_bytes", &PoolStats::pending_free_bytes,
          "Freed, but waiting for a stream"),
    Count("parked_blocks", &PoolStats::parked_blocks,
          "Freed blocks in caches of threads"),
    Count("mapped_vgs", &PoolStats::mapped_vgs, "Virtual granules mapped"),
    Count("live_vgs", &PoolStats::live_vgs,
          "Virtual granules with something live"),
    Count("partial_granules", &PoolStats::partial_granules,
          "Used granules that another virtual granule could share"),
    Count("pinned_blocks", &PoolStats::pinned_blocks, "Live blocks with a pin"),
    Bytes("pinned_bytes", &PoolStats::pinned_bytes,
          "Requested bytes of live blocks with a pin"),
    Count("idle_blocks", &PoolStats::idle_blocks, "Live blocks declared idle"),
    Bytes("idle_bytes", &PoolStats::idle_bytes,
          "Requested bytes of live blocks declared idle"),
    Count("spillable_blocks", &PoolStats::spillable_blocks,
          "Live blocks that may be spilled"),
    Bytes("spillable_bytes", &PoolStats::spillable_bytes,
          "Requested bytes of live blocks that may be spilled"),
    Bytes("spilled_bytes", &PoolStats::spilled_bytes,
          "What of live blocks lies in host memory"),
    Bytes("host_used_bytes", &PoolStats::host_used_bytes,
          "Granules of host memory with something live"),
    Bytes("host_held_bytes", &PoolStats::host_held_bytes,
          "Host memory held, used or not"),
    Bytes("host_limit_bytes", &PoolStats::host_limit_bytes,
          "The most host memory that may be held"),
    Count("read_only_blocks", &PoolStats::read_only_blocks,
          "Live blocks declared read-only"),
    Bytes("read_only_bytes", &PoolStats::read_only_bytes,
          "Requested bytes of live blocks declared read-only"),
    Count("pinned_granules", &PoolStats::pinned_granules,
          "Used granules that no pass can empty"),
    Count("graph_pools", &PoolStats::graph_pools,
          "Graph-private pools not yet released"),
    Bytes("graph_pool_bytes", &PoolStats::graph_pool_bytes,
          "Requested bytes of blocks of graph-private pools, live or freed"),
    Bytes("exportable_bytes", &PoolStats::exportable_bytes,
          "Granules mapped for exportable blocks"),

    Bytes("peak_live_bytes", &PoolStats::peak_live_bytes,
          "The most that was live"),
    Bytes("peak_used_bytes", &PoolStats::peak_used_bytes,
          "The most that was used"),
    Bytes("peak_held_bytes", &PoolStats::peak_held_bytes,
          "The most that was held"),
    Count("peak_mapped_vgs", &PoolStats::peak_mapped_vgs,
          "The most virtual granules that were mapped"),

    CountSoFar("allocations", &PoolStats::allocations,
               "Allocations that succeeded"),
    CountSoFar("frees", &PoolStats::frees, "Frees that succeeded"),
    CountSoFar("cache_hits", &PoolStats::cache_hits,
               "Allocations that a thread's cache served"),
    CountSoFar("failed_allocations", &PoolStats::failed_allocations,
               "Allocations that failed"),
    CountSoFar("refused_frees", &PoolStats::refused_frees,
               "Frees that were refused"),
    CountSoFar("compaction_passes", &PoolStats::compaction_passes,
               "Passes, holes opened for one block included"),
    CountSoFar("failed_passes", &PoolStats::failed_passes,
               "Passes that failed"),
    CountSoFar("granules_moved", &PoolStats::granules_moved,
               "Virtual granules remapped by passes"),
    CountSoFar("granules_recovered", &PoolStats::granules_recovered,
               "Granules emptied by passes"),
    BytesSoFar("bytes_copied", &PoolStats::bytes_copied,
               "Bytes copied by passes"),
    CountSoFar("granules_spilled", &PoolStats::granules_spilled,
               "Granules whose live bytes went to the host"),
    CountSoFar("granules_returned", &PoolStats::granules_returned,
               "Granules of host memory whose live bytes came back"),
    BytesSoFar("bytes_spilled", &PoolStats::bytes_spilled,
               "Bytes copied to the host"),
    BytesSoFar("bytes_returned", &PoolStats::bytes_returned,
               "Bytes copied back from the host"),
    BytesSoFar("zeroed_bytes", &PoolStats::zeroed_bytes,
               "Granules filled with zeros before they served others"),
    CountSoFar("vetoed_sources", &PoolStats::vetoed_sources,
               "Granules that move hooks wanted to stay"),
    CountSoFar("handles_created", &PoolStats::handles_created,
               "Physical handles asked of the driver"),
    CountSoFar("handles_released", &PoolStats::handles_released,
               "Physical handles given back to the driver"),
    CountSoFar("possibly_held_elsewhere", &PoolStats::possibly_held_elsewhere,
               "Handles given back whose memory others may still hold"),

    CountSoFar("gate_closings", &PoolStats::gate_closings,
               "Times that the gate of launch scopes was closed"),
    CountSoFar("gate_timeouts", &PoolStats::gate_timeouts,
               "Times that the gate was not closed, because max_wait passed"),
    CountSoFar(
        "gate_refusals", &PoolStats::gate_refusals,
        "Times that the gate was not closed, because a capture was open or "
        "a stream unknown"),
    CountSoFar("blocked_scopes", &PoolStats::blocked_scopes,
               "Launch scopes that waited for a closed gate"),
    CountSoFar("scope_tokens", &PoolStats::scope_tokens,
               "Events and values written at the ends of launch scopes"),
    CountSoFar("device_waits", &PoolStats::device_waits,
               "Closings that waited for whole devices"),
    CountSoFar("unscoped_reports", &PoolStats::unscoped_reports,
               "Reports of work in flight that no launch scope had named"),
};

constexpr StatsField<TagStats> kTagStatsFields[] = {
    Name("tag", &TagStats::tag, "Number of the tag"),
    Name("name", &TagStats::name, "Name of the tag"),
    Bytes("live_bytes", &TagStats::live_bytes,
          "Requested bytes handed out with the tag"),
    Count("live_allocations", &TagStats::live_allocations,
          "Allocations with the tag not freed"),
    CountSoFar("allocations", &TagStats::allocations,
               "Allocations with the tag that succeeded"),
    Bytes("peak_live_bytes", &TagStats::peak_live_bytes,
          "The most that was live with the tag; not known of blocks without "
          "one"),
};

constexpr StatsField<DomainStats> kDomainStatsFields[] = {
    Name("id", &DomainStats::id, "Number of the domain"),
    Name("name", &DomainStats::name, "Name of the domain"),
    Row(StatKind::kGauge, StatUnit::kBytes, "limit", &DomainStats::limit,
        "What may be mapped for the domain"),
    Flag("is_closed", &DomainStats::is_closed,
         "Whether the domain's owner has given it up"),
    Bytes("live_bytes", &DomainStats::live_bytes,
          "Requested bytes handed out in the domain"),
    Count("live_allocations", &DomainStats::live_allocations,
          "Allocations in the domain not freed"),
    Bytes("used_bytes", &DomainStats::used_bytes,
          "Granules of the domain with something live"),
    Bytes("mapped_bytes", &DomainStats::mapped_bytes,
          "Granules mapped for the domain, used or not"),
    Bytes("host_used_bytes", &DomainStats::host_used_bytes,
          "Granules of host memory with something live of the domain"),
    CountSoFar("allocations", &DomainStats::allocations,
               "Allocations in the domain that succeeded"),
    CountSoFar("failed_allocations", &DomainStats::failed_allocations,
               "Allocations in the domain that failed"),
    BytesSoFar("zeroed_bytes", &DomainStats::zeroed_bytes,
               "Granules filled with zeros before they served the domain"),
};

constexpr StatsField<FragmentationStats> kFragmentationStatsFields[] = {
    Count("live_blocks", &FragmentationStats::live_blocks,
          "Allocations not freed"),
    Bytes("requested_bytes", &FragmentationStats::requested_bytes,
          "Requested bytes of live blocks"),
    Bytes("allocated_bytes", &FragmentationStats::allocated_bytes,
          "What live blocks take up"),
    Bytes("kept_bytes", &FragmentationStats::kept_bytes,
          "What freed blocks take up that keep their place"),
    Bytes("free_bytes", &FragmentationStats::free_bytes,
          "Free beside blocks, in used granules"),
    Bytes("lost_bytes", &FragmentationStats::lost_bytes,
          "Beside blocks, in used granules, for nobody"),
    Bytes("used_bytes", &FragmentationStats::used_bytes,
          "Granules with at least one byte of a block"),
    Bytes("waste_bytes", &FragmentationStats::waste_bytes,
          "Used less requested bytes"),
    Ratio("utilization", &FragmentationStats::utilization,
          "Requested by used bytes"),
    Ratio("internal_fragmentation", &FragmentationStats::internal_fragmentation,
          "Share of what live blocks take up that was not asked for"),
    Count("free_pieces", &FragmentationStats::free_pieces,
          "Longest runs of free bytes in used granules"),
    Bytes("largest_free_bytes", &FragmentationStats::largest_free_bytes,
          "The largest of the free pieces"),
    Ratio("external_fragmentation", &FragmentationStats::external_fragmentation,
          "Share of the free bytes that is not in the largest piece"),
    Bytes("empty_bytes", &FragmentationStats::empty_bytes,
          "Held granules with nothing in them"),
    Count("used_granules", &FragmentationStats::used_granules,
          "Granules with at least one byte of a block"),
    Count("lower_bound_granules", &FragmentationStats::lower_bound_granules,
          "Granules that no pass can do without"),
    Count("bound_by_bytes_granules",
          &FragmentationStats::bound_by_bytes_granules,
          "Lower bound by what is live"),
    Count("bound_by_depth_granules",
          &FragmentationStats::bound_by_depth_granules,
          "Lower bound by what is live at one offset"),
    Count("bound_by_large_granules",
          &FragmentationStats::bound_by_large_granules,
          "Lower bound by what fills more than half of a granule"),
    Count("bound_by_pins_granules", &FragmentationStats::bound_by_pins_granules,
          "Lower bound by what is pinned"),
    Count("bound_by_packing_granules",
          &FragmentationStats::bound_by_packing_granules,
          "Lower bound by packing what is live into bins"),
    Count("potential_granules", &FragmentationStats::potential_granules,
          "Granules that passes could empty at most"),
    Ratio("depth_skew", &FragmentationStats::depth_skew,
          "What is live at the fullest offset by the average"),
    Ratio("requests", &FragmentationStats::requests,
          "Requests of one size, served with what is free"),
    Ratio("live_sizes", &FragmentationStats::live_sizes,
          "Live blocks by what was asked for, up to a power of two"),
    Ratio("free_sizes", &FragmentationStats::free_sizes,
          "Free pieces of used granules, up to a power of two"),
};

constexpr StatsField<RungStats> kRungStatsFields[] = {
    Name("name", &RungStats::name, "The rung"),
    CountSoFar("tried", &RungStats::tried, "Allocations that came to the rung"),
    CountSoFar("changed", &RungStats::changed,
               "Allocations for which the rung changed something"),
    CountSoFar("rescued", &RungStats::rescued,
               "Allocations that succeeded right after the rung"),
    BytesSoFar("recovered_bytes", &RungStats::recovered_bytes,
               "What became free for them on the rung, in granules"),
};

constexpr StatsField<RequestFit> kRequestFitFields[] = {
    Name("request_bytes", &RequestFit::request_bytes, "The size"),
    Ratio("unusable_share", &RequestFit::unusable_share,
          "share of what is free in pieces that are too small"),
    Ratio("extfrag_share", &RequestFit::extfrag_share,
          "share of what is free left over once as many as fit were served"),
    Ratio("fragmentation_index", &RequestFit::fragmentation_index,
          "why none would be served, 0 for a lack of memory, 1 for "
          "fragmentation"),
};

constexpr StatsField<SizeBucket> kSizeBucketFields[] = {
    Name("up_to_bytes", &SizeBucket::up_to_bytes, "The largest size"),
    Count("pieces", &SizeBucket::pieces, "how many"),
    Bytes("sum_bytes", &SizeBucket::sum_bytes, "bytes in all of them"),
};

constexpr StatsField<MemoryLimit> kMemoryLimitFields[] = {
    Bytes("hard_bytes", &MemoryLimit::hard_bytes,
          "hard, never passed by what is taken later; 0: no such limit"),
    Bytes("soft_bytes", &MemoryLimit::soft_bytes,
          "soft, passed only where an allocation would fail otherwise; 0: no "
          "such limit"),
};

}  // namespace

absl::Span<const StatsField<PoolStats>> PoolStatsFields() {
  return kPoolStatsFields;
}

absl::Span<const StatsField<TagStats>> TagStatsFields() {
  return kTagStatsFields;
}

absl::Span<const StatsField<DomainStats>> DomainStatsFields() {
  return kDomainStatsFields;
}

absl::Span<const StatsField<FragmentationStats>> FragmentationStatsFields() {
  return kFragmentationStatsFields;
}

absl::Span<const StatsField<RungStats>> RungStatsFields() {
  return kRungStatsFields;
}
absl::Span<const StatsField<RequestFit>> RequestFitFields() {
  return kRequestFitFields;
}

absl::Span<const StatsField<SizeBucket>> SizeBucketFields() {
  return kSizeBucketFields;
}

absl::Span<const StatsField<MemoryLimit>> MemoryLimitFields() {
  return kMemoryLimitFields;
}

}  // namespace firn
