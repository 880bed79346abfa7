# Copyright 2026 The firn Authors
# SPDX-License-Identifier: Apache-2.0
#
# usage: linkage_test.sh PROGRAM OBJDUMP
# PROGRAM needs no library but those of the C library, at run time. Prints the
# newest version of it that PROGRAM needs.

set -euo pipefail
program="$1"
objdump="$2"

needed="$("$objdump" -p "$program" | sed -n 's/^ *NEEDED *//p')"
[[ -n "$needed" ]] || {
  echo "no dynamic section: not even the C library is needed"
  exit 1
}
others="$(grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux-[a-z0-9-]+)\.so' \
  <<<"$needed" || true)"
if [[ -n "$others" ]]; then
  echo "it needs more than the C library: $others"
  exit 1
fi
echo "it needs $(tr '\n' ' ' <<<"$needed")"
versions="$("$objdump" -T "$program" | grep -o 'GLIBC_[0-9.]*' || true)"
echo "and at least $(sort -uV <<<"$versions" | tail -n 1)"
