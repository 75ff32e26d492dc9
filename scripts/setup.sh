#!/bin/bash
# Installs the Debian packages that kvern needs and that are not there yet. Does nothing, quickly, when all are there.
#
#   scripts/setup.sh            what `make run`, `make test` and `make bench` need
#   scripts/setup.sh check      what `make check` and `make format` need on top: clang, its sanitizers, clang-format;
#                               a compiler and an emulator for 64-bit Arm
#
# Runs as root, or through sudo where there is one.
set -euo pipefail

# Compiler and build tools; PCRE2 for the pre-tokenizers; OpenSSL for the digests of models; zlib for texts in *.gz; JSON
# and CLI11 for the command line, libedit for the lines of a chat; Boost for the HTTP server; GoogleTest and Benchmark for
# the tests; python3-venv for fetching models; debian-faq is a real English text to measure quality on.
build_packages=(
  g++ cmake ninja-build make ccache pkg-config git ca-certificates
  libpcre2-dev libssl-dev zlib1g-dev nlohmann-json3-dev libcli11-dev libedit-dev libboost1.81-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv debian-faq
)
check_packages=(clang clang-format libclang-rt-14-dev g++-aarch64-linux-gnu qemu-user googletest)

case "${1:-build}" in
  build) wanted=("${build_packages[@]}") ;;
  check) wanted=("${build_packages[@]}" "${check_packages[@]}") ;;
  *)
    echo "usage: scripts/setup.sh [build|check]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; nothing is installed. These Debian packages are needed under whatever name they have"
  echo "setup: here: ${wanted[*]}"
  exit 0
fi

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#wanted[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: cannot install packages: not root, and there is no sudo. As root run:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
if ! "${as_root[@]}" apt-get update -qq; then
  echo "setup: the package lists could not be refreshed; going on with those that are there" >&2
fi
if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
  >/dev/null; then
  echo "setup: apt-get could not install: ${missing[*]}" >&2
  echo "setup: its message is above; without a network, install these packages by hand and run this again" >&2
  exit 1
fi
echo "setup: done"
