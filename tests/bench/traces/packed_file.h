// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Packs the contents of files, for tests.

#ifndef FIRN_TESTS_BENCH_TRACES_PACKED_FILE_H_
#define FIRN_TESTS_BENCH_TRACES_PACKED_FILE_H_

#include <zlib.h>
#include <zstd.h>

#include <string>

#include "gtest/gtest.h"

namespace firn::bench {

inline std::string Gzip(const std::string& plain) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(plain.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string Zstd(const std::string& plain) {
  std::string packed(ZSTD_compressBound(plain.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(),
                              plain.size(), 3));
  return packed;
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_PACKED_FILE_H_
