#!/usr/bin/env bash
# Compares our declarations of foreign functions, values and structures with the vendors' own headers.
#
# Usage: ci/declarations.sh [FOLDER]   FOLDER keeps the headers for the next run; default target/headers
# CUDA 12.8 and 13.0 with their cuBLAS, cuBLASLt and NCCL come from PyPI; HIP 5.7, 6.4 and 7.2 with hipBLAS, RCCL and
# hipBLASLt 7.1 and 7.2 come from the Debian suites trixie, sid and experimental. Nothing is installed: headers are
# extracted from the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
headers=$(realpath -m "${1:-target/headers}")
mkdir -p "$headers"

# Makes folder $1 once, by the command that follows: a folder completed by an earlier run is kept.
once() {
  local folder=$headers/$1
  [ -d "$folder" ] && return
  rm -rf "$folder.unfinished"
  mkdir -p "$folder.unfinished"
  "${@:2}" "$folder.unfinished"
  mv "$folder.unfinished" "$folder"
}

cuda_13() {
  python3 ci/wheel-headers.py "$1" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
    'nvidia-cublas==13.0.*' 'nvidia-nccl-cu13==2.*'
}
cuda_12() {
  python3 ci/wheel-headers.py "$1" 'nvidia-cuda-runtime-cu12==12.8.*' 'nvidia-cuda-nvcc-cu12==12.8.*' \
    'nvidia-cuda-cccl-cu12==12.8.*' 'nvidia-cublas-cu12==12.8.*' 'nvidia-nccl-cu12==2.27.*'
}

# Unpacks packages of a Debian suite, whatever suite this machine has: apt gets its own lists and folders. It must
# not read the list of installed packages either, or it looks for an installed version that the suite does not
# offer.
debian() {
  local suite=$1 out=$2 uri
  uri=$(awk '/^URIs:/ { print $2; exit }' /etc/apt/sources.list.d/*.sources 2> /dev/null || true)
  mkdir -p "$out"/{lists/partial,archives/partial,sources}
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
    "${uri:-http://deb.debian.org/debian}" "$suite" /usr/share/keyrings/debian-archive-keyring.gpg \
    > "$out/sources/suite.sources"
  local apt=(apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$out/sources"
    -o "Dir::State::Lists=$out/lists" -o "Dir::Cache::Archives=$out/archives" -o Dir::Cache::pkgcache=
    -o Dir::Cache::srcpkgcache= -o Dir::State::status=/dev/null)
  "${apt[@]}" update
  (cd "$out" && "${apt[@]}" download "${@:3}")
  for package in "$out"/*.deb; do dpkg -x "$package" "$out/root"; done
  rm -rf "$out"/{*.deb,lists,archives,sources}
}
rocm_trixie() { debian trixie "$1" libamdhip64-dev libhipblas-dev librocblas-dev librccl-dev; }
newer=(libamdhip64-dev libhipblas-dev libhipblas-common-dev libhipblaslt-dev librocblas-dev librccl-dev)
rocm_sid() { debian sid "$1" "${newer[@]}"; }
rocm_experimental() { debian experimental "$1" "${newer[@]}"; }

once cuda-12 cuda_12
once cuda-13 cuda_13
once rocm-trixie rocm_trixie
once rocm-sid rocm_sid
once rocm-experimental rocm_experimental

export FASCICLE_CUDA_HEADERS=$headers/cuda-12:$headers/cuda-13
export FASCICLE_ROCM_HEADERS=$headers/rocm-trixie/root/usr/include:$headers/rocm-sid/root/usr/include
export FASCICLE_ROCM_HEADERS=$FASCICLE_ROCM_HEADERS:$headers/rocm-experimental/root/usr/include
source ci/workspace.sh
cargo test -q "${workspace[@]}" --test declarations -- --nocapture 2>&1 | grep -v '^warning' | tee "$headers/log"
found=$(grep -c 'declarations agree' "$headers/log" || true)
[ "$found" -ge 19 ] || { echo "declarations: $found of 19 headers were compared" >&2; exit 1; }
