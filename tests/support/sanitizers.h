// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which sanitizers a test is built with, for tests whose size or limits depend
// on it.

#ifndef FIRN_TESTS_SUPPORT_SANITIZERS_H_
#define FIRN_TESTS_SUPPORT_SANITIZERS_H_

#ifdef __has_feature
#define FIRN_TESTS_HAS_FEATURE(feature) __has_feature(feature)
#else
#define FIRN_TESTS_HAS_FEATURE(feature) 0
#endif

namespace firn::testing {

#if defined(__SANITIZE_THREAD__) || FIRN_TESTS_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || FIRN_TESTS_HAS_FEATURE(address_sanitizer)
inline constexpr bool kUnderAddressSanitizer = true;
#else
inline constexpr bool kUnderAddressSanitizer = false;
#endif

}  // namespace firn::testing

#undef FIRN_TESTS_HAS_FEATURE

#endif  // FIRN_TESTS_SUPPORT_SANITIZERS_H_
