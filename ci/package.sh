#!/usr/bin/env bash
# Every published package has what its sources include, the licences and a README. All name one version.
#
# Usage: ci/package.sh [--build]    --build: and builds from its packaged files, which reach nothing outside them
#
# The packages are made as `cargo publish` makes them, and unpacked into their own workspace. With --build they are checked there
# with all features except MPI's, with their examples and packaged tests: three minutes from an empty target, so before a
# release. Cargo's own verification is unsuitable here: it takes four times as long, and it keeps the packages of one version
# from one run to the next.
set -euo pipefail
case "${1:-}" in
  '' | --build) ;;
  *) printf 'package: found %s, needs --build or nothing\n' "$1" >&2; exit 2 ;;
esac
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
# include_str!("FILE") and include_bytes!("FILE"), with FILE beside the source.
grep -rnoE --include='*.rs' 'include_(str|bytes)!\("[^"]+"' "$unpacked" | while IFS=: read -r source _ included; do
  file=$(dirname "$source")/$(cut -d '"' -f 2 <<<"$included")
  [ -f "$file" ] || { printf '%s: includes %s, which is not packed\n' "${source#"$unpacked"/}" "$included" >&2; exit 1; }
done
how='have what they include'
if [ "${1:-}" = --build ]; then
  cp Cargo.lock "$unpacked"
  cd "$unpacked"
  cargo check --quiet --offline --workspace --all-targets --features fascicle/cuda,fascicle/rocm,fascicle/serve
  cargo check --quiet --offline -p fascicle --no-default-features
  how='build from what they pack'
fi
printf '%s packages %s\n' "$(ls -d "$unpacked"/fascicle*/ | wc -l)" "$how"
