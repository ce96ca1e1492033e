#!/usr/bin/env bash
# What a gradient reduction costs through each binding, beside one bare all-reduce of as many bytes, in turn: on threads, and under
# mpirun. Prints, for each size, the median of the all-reduce and the medians of the quotients by it, with their quartiles.
#
# Usage: ci/bench-bindings.sh [c|collective|candle|burn]...     all by default; RANKS (2) and TURNS (41) are taken from the environment
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/workspace.sh
root=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_INCREMENTAL=0
ranks=${RANKS:-2} turns=${TURNS:-41}

# both PROGRAM runs it on threads and on processes.
both() {
  printf '%s: %s threads, %s turns\n' "$program" "$ranks" "$turns"
  "$1" "$ranks" "$turns"
  printf '%s: %s processes, %s turns\n' "$program" "$ranks" "$turns"
  timeout 600 mpirun -n "$ranks" "$1" "$ranks" "$turns"
}

programs=("$@")
[ $# -gt 0 ] || programs=(collective c candle burn)
for program in "${programs[@]}"; do
  case $program in
    collective)
      cargo build --quiet --release -p fascicle-collective --example overhead
      printf 'collective: %s threads, %s turns\n' "$ranks" "$turns"
      "$root/release/examples/overhead" "$ranks" "$turns"
      ;;
    c | candle | burn)
      export CARGO_TARGET_DIR=$root/bench-$program
      if [ "$program" = c ]; then
        cargo build --quiet --release -p fascicle-c --features mpi
        gcc -O2 -std=c11 -Wall -Wextra -Werror -Ibindings/c/include bindings/c/examples/overhead.c -L"$CARGO_TARGET_DIR/release" \
          -Wl,-rpath,"$CARGO_TARGET_DIR/release" -lfascicle -lm -o "$CARGO_TARGET_DIR/overhead"
        both "$CARGO_TARGET_DIR/overhead"
      else
        cp Cargo.lock "bindings/$program/Cargo.lock"
        (cd "bindings/$program" && cargo build --quiet --release --features mpi --example overhead)
        both "$CARGO_TARGET_DIR/release/examples/overhead"
      fi
      export CARGO_TARGET_DIR=$root
      ;;
    *) printf 'bench-bindings: found %s, needs collective, c, candle or burn\n' "$program" >&2; exit 2 ;;
  esac
done
