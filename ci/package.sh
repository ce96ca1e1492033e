#!/usr/bin/env bash
# Every published package builds from its packaged files, reaches nothing outside them, and carries the licences and a
# README. All name one version.
# The packages are made as `cargo publish` makes them, unpacked into their own workspace, and checked there with all
# features except MPI's, with their examples and packaged tests. Cargo's own verification is unsuitable here: it
# takes four times as long, and it keeps the packages of one version from one run to the next.
set -euo pipefail
target=${CARGO_TARGET_DIR:-$PWD/target}
packed=$target/package unpacked=$target/unpacked
source ci/release/packaging.sh
python3 ci/release/versions.py
rm -rf "$unpacked"
mkdir -p "$unpacked"
pack "$target" --allow-dirty
{
  printf '[workspace]\nresolver = "3"\nmembers = ["fascicle*"]\n[profile.dev]\ndebug = "line-tables-only"\n[patch.crates-io]\n'
  for archive in "$packed"/*.crate; do
    tar --extract --touch --gzip --file "$archive" --directory "$unpacked"
    folder=$(basename "$archive" .crate)
    for file in LICENSE-MIT LICENSE-APACHE README.md; do
      test -s "$unpacked/$folder/$file" || { printf '%s packs no %s\n' "$folder" "$file" >&2; exit 1; }
    done
    printf '%s = { path = "%s" }\n' "${folder%-*}" "$folder"
  done
} >"$unpacked/Cargo.toml"
cp Cargo.lock "$unpacked"
cd "$unpacked"
cargo check --quiet --offline --workspace --all-targets --features fascicle/cuda,fascicle/rocm,fascicle/serve
cargo check --quiet --offline -p fascicle --no-default-features
printf '%s packages build from what they pack\n' "$(ls -d fascicle*/ | wc -l)"
