#!/usr/bin/env bash
# Finds what the property test of crates/tensor cannot detect by itself: reads and writes beyond a tensor, uses after free,
# data races. Miri interprets a few random programs. AddressSanitizer and ThreadSanitizer run many, and also the CPU's
# streams and collectives between threads. If a toolchain is missing, the check reports what it skips.
#
# Usage: ci/sanitizers.sh [miri|address|thread]...     all three by default
#
# Needs: rustup toolchain install nightly. Installs Miri and the sources of the standard library where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}/sanitizers
host=$(rustc -vV | sed -n 's/^host: //p')
checks=("$@")
[ $# -gt 0 ] || checks=(miri address thread)

skip() { printf 'sanitizers: skipped %s: %s\n' "$1" "$2"; }

if rustc +nightly --version > /dev/null 2>&1; then
  timeout 300 rustup component add --toolchain nightly miri rust-src > /dev/null 2>&1 || true
fi
library=$(rustc +nightly --print sysroot 2> /dev/null)/lib/rustlib/src/rust/library || true
# ThreadSanitizer needs the standard library built with it too, because otherwise its thread synchronisation would look like
# races.
sanitized() {
  local sanitizer=$1
  shift
  RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR="$target/$sanitizer" \
    cargo +nightly test --quiet --target "$host" "$@"
}

for check in "${checks[@]}"; do
  start=$SECONDS
  if ! rustc +nightly --version > /dev/null 2>&1; then skip "$check" 'no nightly toolchain'; continue; fi
  case $check in
    miri)
      if ! cargo +nightly miri --version > /dev/null 2>&1; then skip "$check" 'nightly has no miri'; continue; fi
      MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-backtrace=0' CARGO_TARGET_DIR="$target/miri" \
        cargo +nightly miri test --quiet -p fascicle-tensor -p fascicle-dlpack --test properties --test foreign --test exchange
      ;;
    address)
      # Memory behind a failed stream is kept on purpose: nobody knows when its work has ended.
      ASAN_OPTIONS=detect_leaks=0 FASCICLE_TEST_CASES=400 sanitized address -p fascicle-tensor --tests
      ;;
    thread)
      if [ ! -d "$library" ]; then skip "$check" 'nightly has no rust-src'; continue; fi
      FASCICLE_TEST_CASES=100 sanitized thread -Zbuild-std -p fascicle-tensor --test properties --test foreign --test streams --test soundness
      ;;
    *) printf 'sanitizers: found %s, needs miri, address or thread\n' "$check" >&2; exit 2 ;;
  esac
  printf 'sanitizers: %s passed in %s s\n' "$check" $((SECONDS - start))
done
