#!/usr/bin/env bash
# Collectives of more than 2^31 elements between two processes. Needs 10 GiB of free memory.
set -euo pipefail
free_mib=$(awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
[ "$free_mib" -ge 10240 ] || { printf 'mpi-large: found %s MiB free, needs 10240\n' "$free_mib" >&2; exit 1; }
source ci/workspace.sh
test=$(build_workspace | executable under_mpirun)
timeout 300 mpirun -n 2 "$test" large
