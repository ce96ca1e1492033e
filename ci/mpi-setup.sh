#!/usr/bin/env bash
# Installs Open MPI and what binding it needs, where they are missing. Sourced by the checks that use MPI.
set -euo pipefail
if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null || ! ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libopenmpi-dev openmpi-bin libclang-dev >/dev/null
fi
# Containers run as root, have few processors, and often no other host.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
# The program gives each rank its share of the processors; mpirun would leave one to all threads of a rank.
export OMPI_MCA_hwloc_base_binding_policy=none
