#!/usr/bin/env bash
# The README's test command, with MPI compiled in, so that later checks find everything built. ci/lint.sh checks
# that the workspace compiles without MPI.
set -euo pipefail
source ci/mpi-setup.sh
cargo test "${workspace[@]}"
