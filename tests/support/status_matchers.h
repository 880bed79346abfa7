// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// GoogleTest matchers and macros for absl::Status and absl::StatusOr<T>, which
// the oldest supported Abseil does not have:
//
//   EXPECT_THAT(pool->Free(ptr), IsOk());
//   EXPECT_THAT(pool->Allocate(0), StatusIs(absl::StatusCode::kInvalidArgument,
//                                           HasSubstr("0 bytes")));
//   EXPECT_THAT(pool->Trim(), IsOkAndHolds(Eq(0)));
//   FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(512));

#ifndef FIRN_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define FIRN_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {

namespace internal {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

class IsOkMatcher {
 public:
  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& value,
                       ::testing::MatchResultListener* listener) const {
    const absl::Status& status = GetStatus(value);
    // A StatusOr would otherwise be printed as raw bytes.
    if (!status.ok()) *listener << "which has the status " << status;
    return status.ok();
  }
  void DescribeTo(std::ostream* os) const { *os << "is OK"; }
  void DescribeNegationTo(std::ostream* os) const { *os << "is not OK"; }
};

class StatusIsMatcher {
 public:
  StatusIsMatcher(absl::StatusCode code,
                  ::testing::Matcher<const std::string&> message)
      : code_(code), message_(std::move(message)) {}

  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& value,
                       ::testing::MatchResultListener* listener) const {
    const absl::Status& status = GetStatus(value);
    *listener << "which has the status " << status;
    return status.code() == code_ &&
           message_.Matches(std::string(status.message()));
  }
  void DescribeTo(std::ostream* os) const {
    *os << "has a status with code " << absl::StatusCodeToString(code_)
        << " and a message that ";
    message_.DescribeTo(os);
  }
  void DescribeNegationTo(std::ostream* os) const {
    *os << "has a status whose code is not " << absl::StatusCodeToString(code_)
        << " or whose message ";
    message_.DescribeNegationTo(os);
  }

 private:
  absl::StatusCode code_;
  ::testing::Matcher<const std::string&> message_;
};

// `StatusOrRef` is a (reference to a) const StatusOr<T>.
template <typename StatusOrRef>
class IsOkAndHoldsImpl : public ::testing::MatcherInterface<StatusOrRef> {
 public:
  using Value = typename std::decay_t<StatusOrRef>::value_type;

  template <typename ValueMatcher>
  explicit IsOkAndHoldsImpl(const ValueMatcher& matcher)
      : matcher_(::testing::SafeMatcherCast<const Value&>(matcher)) {}

  bool MatchAndExplain(
      StatusOrRef value,
      ::testing::MatchResultListener* listener) const override {
    if (!value.ok()) {
      *listener << "which has the status " << value.status();
      return false;
    }
    *listener << "which holds " << ::testing::PrintToString(*value);
    ::testing::StringMatchResultListener inner;
    const bool matches = matcher_.MatchAndExplain(*value, &inner);
    if (!inner.str().empty()) *listener << ", " << inner.str();
    return matches;
  }
  void DescribeTo(std::ostream* os) const override {
    *os << "is OK and holds a value that ";
    matcher_.DescribeTo(os);
  }
  void DescribeNegationTo(std::ostream* os) const override {
    *os << "is not OK or holds a value that ";
    matcher_.DescribeNegationTo(os);
  }

 private:
  ::testing::Matcher<const Value&> matcher_;
};

template <typename ValueMatcher>
class IsOkAndHoldsMatcher {
 public:
  explicit IsOkAndHoldsMatcher(ValueMatcher matcher)
      : matcher_(std::move(matcher)) {}

  // Implicit, as every matcher without a type of its own is in GoogleTest.
  template <typename StatusOrRef>
  operator ::testing::Matcher<StatusOrRef>() const {  // NOLINT
    return ::testing::Matcher<StatusOrRef>(
        new IsOkAndHoldsImpl<const StatusOrRef&>(matcher_));
  }

 private:
  ValueMatcher matcher_;
};

}  // namespace internal

// Matches an OK absl::Status, or an absl::StatusOr that holds a value.
inline auto IsOk() {
  return ::testing::MakePolymorphicMatcher(internal::IsOkMatcher());
}

// Matches an OK absl::StatusOr<T> whose value matches `matcher` (or equals it).
template <typename ValueMatcher>
auto IsOkAndHolds(ValueMatcher matcher) {
  return internal::IsOkAndHoldsMatcher<ValueMatcher>(std::move(matcher));
}

// Matches an absl::Status or absl::StatusOr with this code whose message
// matches `message` (or equals it).
template <typename MessageMatcher>
auto StatusIs(absl::StatusCode code, const MessageMatcher& message) {
  return ::testing::MakePolymorphicMatcher(internal::StatusIsMatcher(
      code, ::testing::MatcherCast<const std::string&>(message)));
}

// The same, whatever the message.
inline auto StatusIs(absl::StatusCode code) {
  return StatusIs(code, ::testing::_);
}

}  // namespace firn::testing

// Expects, or demands, that an absl::Status or absl::StatusOr is OK. Variadic,
// so that the expression may hold commas.
#define FIRN_EXPECT_OK(...) EXPECT_THAT((__VA_ARGS__), ::firn::testing::IsOk())
#define FIRN_ASSERT_OK(...) ASSERT_THAT((__VA_ARGS__), ::firn::testing::IsOk())

// Demands that the absl::StatusOr is OK, then moves its value to `lhs`, which
// may declare a variable. Not for the body of an if without braces.
#define FIRN_ASSERT_OK_AND_ASSIGN(lhs, ...)                                    \
  FIRN_INTERNAL_OK_AND_ASSIGN(FIRN_INTERNAL_CONCAT(firn_status_or_, __LINE__), \
                              lhs, (__VA_ARGS__))

#define FIRN_INTERNAL_OK_AND_ASSIGN(temporary, lhs, expression) \
  auto temporary = expression;                                  \
  ASSERT_THAT(temporary, ::firn::testing::IsOk());              \
  lhs = *std::move(temporary)
#define FIRN_INTERNAL_CONCAT(a, b) FIRN_INTERNAL_CONCAT_EXPANDED(a, b)
#define FIRN_INTERNAL_CONCAT_EXPANDED(a, b) a##b

#endif  // FIRN_TESTS_SUPPORT_STATUS_MATCHERS_H_
