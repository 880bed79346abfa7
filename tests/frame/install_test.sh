# Copyright 2026 The firn Authors
# SPDX-License-Identifier: Apache-2.0
#
# usage: install_test.sh SOURCE_FOLDER BUILD_FOLDER CXX_COMPILER
# Installs a build, then builds and runs the project in consumer/ and the
# README's example against it, as C++17 and as C++20.

set -euo pipefail
source_folder="$1"
build_folder="$2"
compiler="$3"

work_folder="$build_folder/frame"
prefix="$work_folder/prefix"
rm -rf "$work_folder"
mkdir -p "$work_folder"

fail() {
  echo "$*"
  exit 1
}

cmake --install "$build_folder" --prefix "$prefix" >"$work_folder/install.log"

# The installed headers are those of the tree, no more and no fewer.
headers_below() {
  (cd "$1" && find core compaction vmm -name '*.h' | sort)
}
diff <(headers_below "$source_folder") <(headers_below "$prefix/include/firn") ||
  fail "the installed headers differ from the tree's"
extra="$(find "$prefix/include" -mindepth 2 -maxdepth 2 ! -name core \
  ! -name compaction ! -name vmm)"
[[ -z "$extra" ]] || fail "installed beside the layers: $extra"
if grep -rlE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](cuda\.h|bench/|tests/)' \
  "$prefix/include"; then
  fail "an installed header includes cuda.h, bench or tests"
fi

# The README's first C++ block is a program.
awk '/^```cpp$/ {inside = 1; next} /^```$/ {if (inside) exit} inside' \
  "$source_folder/README.md" >"$work_folder/readme_example.cc"
[[ -s "$work_folder/readme_example.cc" ]] || fail "README.md has no C++ block"

cmake -S "$source_folder/tests/frame/consumer" -B "$work_folder/consumer" \
  -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DREADME_EXAMPLE="$work_folder/readme_example.cc"
cmake --build "$work_folder/consumer"

for program in consumer_cxx17 consumer_cxx20 readme_cxx17 readme_cxx20; do
  echo "running $program"
  FIRN_DRIVER=cpu "$work_folder/consumer/$program"
  if ldd "$work_folder/consumer/$program" | grep -iE 'cuda|nvidia'; then
    fail "$program is linked against CUDA"
  fi
done
