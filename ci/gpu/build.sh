#!/usr/bin/env bash
# Builds the kit of ci/gpu.sh, which runs on a machine without Rust and without a compiler: the program, the tests of the
# vendors, and what they are. FASCICLE_CUDA_ARCHS and FASCICLE_HIP_ARCHS choose the architectures, as in any build.
set -euo pipefail
cd "$(dirname "$0")/../.."
kit=${FASCICLE_KIT:-target/gpu-kit}
# What fits beside a checkout where at most 64 MiB can be carried.
most_mib=48
fail() { printf 'gpu: %s\n' "$1" >&2; exit 1; }
for program in cargo strip; do command -v "$program" > /dev/null || fail "no $program here: needs a machine that has it"; done

# A build without a compiler for the devices only warns, and its program starts; on the device it would do nothing.
declare -A makers=([cuda]=NVIDIA [rocm]=AMD)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
built=$(cargo test --release -p fascicle-emulator --test vendors --no-run --message-format=json-render-diagnostics)
tests=$(grep -oE '"executable":"[^"]*/vendors-[0-9a-f]+"' <<< "$built" | tail -n 1 | cut -d '"' -f 4)
cargo build --release -p fascicle --features cuda,rocm --bin fascicle 2>&1 | tee "$log" >&2
missing=$(grep -m 1 -o "no device code for ${makers[$FASCICLE_VENDOR]}.*" "$log" || true)
[ -z "$missing" ] || fail "$missing"
rm -rf "$kit"
mkdir -p "$kit"
strip -o "$kit/gpu-tests" "$tests"
strip -o "$kit/fascicle" "$(dirname "$(dirname "$tests")")/fascicle"
"$kit/fascicle" doctor > "$kit/doctor.txt"
# The machine with the device has no git, and its C library may be older than this one's.
git describe --always --dirty --abbrev=12 > "$kit/version.txt"
objdump -T "$kit/fascicle" "$kit/gpu-tests" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1 >> "$kit/version.txt"
# Both hold the device code of every architecture, most of it as text. Uncompressed, that alone would be too large.
gzip -f "$kit/fascicle" "$kit/gpu-tests"

bytes=$(du --bytes --total "$kit"/* | tail -n 1 | cut -f 1)
(cd "$kit" && du --bytes -- * | awk '{ printf "gpu: %-14s %6.1f MiB\n", $2, $1 / 1048576 }')
mib=$(((bytes + 1048575) / 1048576))
[ "$mib" -le "$most_mib" ] ||
  fail "$kit: found $mib MiB, needs at most $most_mib: name fewer architectures in FASCICLE_CUDA_ARCHS or FASCICLE_HIP_ARCHS"
printf 'gpu: built %s, %s MiB of at most %s, for %s and later\n' "$kit" "$mib" "$most_mib" "$(tail -n 1 "$kit/version.txt")"
