# Copyright 2026 The firn Authors
# SPDX-License-Identifier: Apache-2.0
#
# usage: options_test.sh SCRIPT
# An unknown option ends SCRIPT with status 2 and one line that names it,
# whatever the current directory.

set -euo pipefail
script="$1"
cd /

status=0
message="$(bash "$script" --bogus 2>&1 >/dev/null </dev/null)" || status=$?
if ((status != 2)); then
  echo "exit status $status instead of 2"
  exit 1
fi
if [[ "$message" != *--bogus* || "$message" == *$'\n'* ]]; then
  echo "not one line that names the option: $message"
  exit 1
fi
