# Copyright 2026 The firn Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the programs of bench/ share: finding traces, and reading what
# firn_replay found. Sourced, not run, after tests/setup.sh; needs bash.

# The file named, where it is found in $FIRN_TRACES or in ../shared/traces;
# nothing otherwise.
find_trace() {
  local folder
  for folder in "${FIRN_TRACES:-}" "$FIRN_ROOT/../shared/traces"; do
    if [[ -n "$folder" && -r "$folder/$1" ]]; then
      printf '%s' "$(cd "$folder" && pwd)/$1"
      return 0
    fi
  done
}

# value FILE KEY: of a JSON object that has one key a line.
value() {
  awk -F': ' -v key="\"$2\"" '
    { name = $1; sub(/^ +/, "", name) }
    name == key { sub(/,$/, "", $2); print $2; exit }' "$1"
}
