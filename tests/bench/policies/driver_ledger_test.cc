// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/driver_ledger.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(DriverLedgerTest, ANewRunIsOneAccessCallAndACreateAndMapPerGranule) {
  DriverLedger ledger(CostProfile::kFast);
  ledger.ChargeNewRun(3);
  const PolicyReport report = ledger.Report(1, 512);
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
  const PolicyReport report = ledger.Report(1, 512);
  EXPECT_EQ(report.driver_calls.unmap, 2u);
  EXPECT_EQ(report.driver_calls.release, 2u);
  EXPECT_EQ(report.driver_calls.create, 0u);
  CostModel model(CostProfile::kFast);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   2 * model.Unmap(1) + 2 * model.Release());
  EXPECT_EQ(report.driver_us_create, 0);
}

TEST(DriverLedgerTest, ASecondMappingIsAMapPerGranuleAndOneAccessCall) {
  DriverLedger ledger(CostProfile::kFast);
  ledger.ChargeMapRun(3);
  ledger.ChargeUnmap(2);
  const PolicyReport report = ledger.Report(1, 512);
  EXPECT_EQ(report.driver_calls.create, 0u);
  EXPECT_EQ(report.driver_calls.map, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 1u);
  EXPECT_EQ(report.driver_calls.unmap, 2u);
  EXPECT_EQ(report.driver_calls.release, 0u);
  CostModel model(CostProfile::kFast);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   3 * model.Map() + model.SetAccess(3) + 2 * model.Unmap(1));
  EXPECT_EQ(report.driver_us_create, 0);
}

TEST(DriverLedgerTest, NothingCostsNothing) {
  DriverLedger ledger(CostProfile::kA100);
  ledger.ChargeNewRun(0);
  ledger.ChargeRelease(0);
  ledger.ChargeMapRun(0);
  ledger.ChargeUnmap(0);
  const PolicyReport report = ledger.Report(1, 512);
  EXPECT_EQ(report.driver_calls.set_access, 0u);
  EXPECT_EQ(report.driver_us_modelled, 0);
}

TEST(DriverLedgerTest, TheLeastIsLiveBytesInWholeGranules) {
  const DriverLedger ledger(CostProfile::kNone);
  EXPECT_EQ(ledger.Report(0, 512).lower_bound_bytes, 0u);
  EXPECT_EQ(ledger.Report(512, 512).lower_bound_bytes, 512u);
  EXPECT_EQ(ledger.Report(513, 512).lower_bound_bytes, 1024u);
}

}  // namespace
}  // namespace firn::bench
