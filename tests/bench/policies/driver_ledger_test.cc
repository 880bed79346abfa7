// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/driver_ledger.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(DriverLedgerTest, ANewRunIsOneAccessCallAndACreateAndMapPerGranule) {
  DriverLedger ledger(CostProfile::kFast);
  ledger.ChargeNewRun(3);
  PolicyReport report;
  ledger.AddTo(&report);
  EXPECT_EQ(report.driver_calls.create, 3u);
  EXPECT_EQ(report.driver_calls.map, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 1u);
  EXPECT_EQ(report.driver_calls.unmap, 0u);
  EXPECT_EQ(report.driver_calls.release, 0u);
  CostModel model(CostProfile::kFast);
  EXPECT_DOUBLE_EQ(report.driver_us_create, 3 * model.Create());
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   3 * model.Create() + 3 * model.Map() + model.SetAccess(3));
}

TEST(DriverLedgerTest, AReleaseIsAnUnmapAndAReleasePerGranule) {
  DriverLedger ledger(CostProfile::kFast);
  ledger.ChargeRelease(2);
  PolicyReport report;
  ledger.AddTo(&report);
  EXPECT_EQ(report.driver_calls.unmap, 2u);
  EXPECT_EQ(report.driver_calls.release, 2u);
  EXPECT_EQ(report.driver_calls.create, 0u);
  CostModel model(CostProfile::kFast);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   2 * model.Unmap(1) + 2 * model.Release());
  EXPECT_EQ(report.driver_us_create, 0);
}

TEST(DriverLedgerTest, NothingCostsNothing) {
  DriverLedger ledger(CostProfile::kA100);
  ledger.ChargeNewRun(0);
  ledger.ChargeRelease(0);
  PolicyReport report;
  ledger.AddTo(&report);
  EXPECT_EQ(report.driver_calls.set_access, 0u);
  EXPECT_EQ(report.driver_us_modelled, 0);
}

}  // namespace
}  // namespace firn::bench
