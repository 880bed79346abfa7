# Copyright 2026 The firn Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What tests/run and bench/run share: installing what a build needs, and
# configuring and building a preset. Sourced, not run; needs bash.
#
#   source tests/setup.sh
#   firn_install_packages [EXTRA_PACKAGE...]
#   firn_configure_and_build PRESET [TARGET...]

FIRN_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Debian's names. A build cannot do without the first list; the second only
# makes it faster and is installed along with the first, never by itself.
FIRN_PACKAGES=(
  g++ clang clang-format cmake ninja-build pkg-config
  libabsl-dev libgtest-dev libgmock-dev libbenchmark-dev
  nlohmann-json3-dev libzstd-dev zlib1g-dev
)
FIRN_OPTIONAL_PACKAGES=(ccache)

firn_say() { printf '== %s\n' "$*"; }

firn_fail() {
  local folder
  folder="$(basename "$(dirname "$0")")"
  printf '%s/%s: %s\n' "$folder" "$(basename "$0")" "$*" >&2
  exit 1
}

# firn_step "what it does" LOG COMMAND...: one line when it starts; what the
# command prints goes to LOG, and is shown whole when it fails.
firn_step() {
  local title="$1" log="$2"
  shift 2
  firn_say "$title"
  mkdir -p "$(dirname "$log")"
  local status=0
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status != 0)); then
    cat "$log" >&2
    firn_fail "failed (exit status $status): $*"
  fi
}

# Parallel jobs: one a processor, but no more than memory allows at 1.5 GiB
# each.
firn_jobs() {
  local processors kib memory_jobs
  processors="$(nproc)"
  kib="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)"
  memory_jobs=$((${kib:-0} / (1536 * 1024)))
  ((memory_jobs >= 1)) || memory_jobs=1
  echo $((memory_jobs < processors ? memory_jobs : processors))
}

# Whether what a package gives is there. Programs are looked for by their name,
# so that one that was installed in another way counts.
firn_has_package() {
  case "$1" in
    g++ | clang-format | cmake | ccache | pkg-config) command -v "$1" >/dev/null ;;
    clang) command -v clang++ >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    gnuplot-nox) command -v gnuplot >/dev/null ;;
    *)
      [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == \
        installed ]]
      ;;
  esac
}

# Installs what is missing of FIRN_PACKAGES and of the packages named. Where it
# may not, prints the command to type and exits 1.
firn_install_packages() {
  local package missing=()
  if ! command -v apt-get >/dev/null; then
    firn_say "no apt-get here: expecting the equivalents of" \
      "${FIRN_PACKAGES[*]} $*"
    return 0
  fi
  for package in "${FIRN_PACKAGES[@]}" "$@"; do
    firn_has_package "$package" || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  for package in "${FIRN_OPTIONAL_PACKAGES[@]}"; do
    firn_has_package "$package" || missing+=("$package")
  done

  local install=(apt-get install -y --no-install-recommends "${missing[@]}")
  local as_root=()
  if ((EUID != 0)); then
    # Without a terminal nobody can type a password.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }
    then
      as_root=(sudo)
      firn_say "installing needs root: sudo may ask for your password"
      sudo -v || firn_fail "sudo refused; run this as root: ${install[*]}"
    else
      firn_fail "packages are missing, and installing them needs root." \
        "Run: sudo ${install[*]}"
    fi
  fi
  local log_folder="$FIRN_ROOT/build/logs"
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  firn_step "refreshing apt's package lists" "$log_folder/apt-update.log" \
    "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update
  firn_step "installing ${missing[*]}" \
    "$log_folder/apt-install.log" \
    "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 "${install[@]:1}"
}

# Builds TARGETs (default: everything) of a preset in build/PRESET.
firn_configure_and_build() {
  local preset="$1"
  shift
  local folder="$FIRN_ROOT/build/$preset" launcher=""
  if command -v ccache >/dev/null && ccache --show-config >/dev/null 2>&1; then
    # Time stamps inside precompiled headers are not what it is to go by.
    launcher="env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
    # Another clone of the same sources finds the same objects.
    export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$FIRN_ROOT}"
  fi

  cd "$FIRN_ROOT" || exit 1
  firn_step "configuring build/$preset" "$folder/configure.log" \
    cmake --preset "$preset" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"

  local jobs build
  jobs="$(firn_jobs)"
  build=(cmake --build "$folder" --parallel "$jobs")
  (($# == 0)) || build+=(--target "$@")
  local what="building build/$preset${*:+: $*} ($jobs jobs)"
  if [[ -t 1 ]]; then
    firn_say "$what"  # ninja's own progress line
    "${build[@]}" || firn_fail "the build failed: ${build[*]}"
  else
    firn_step "$what" "$folder/build.log" "${build[@]}"
  fi
}
