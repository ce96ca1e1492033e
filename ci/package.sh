#!/usr/bin/env bash
# Every package that is published can be built from what it packs: nothing reaches outside of it, and each carries the
# licences. The packages are made as `cargo publish` makes them, unpacked into a workspace of their own, and checked there
# with all features but MPI's, with examples and those tests that are packed. Cargo's own verification does not serve
# here: it takes four times as long, and it keeps the packages of one version from one run to the next.
set -euo pipefail
target=${CARGO_TARGET_DIR:-$PWD/target}
packed=$target/package unpacked=$target/unpacked
rm -rf "$packed" "$unpacked"
mkdir -p "$unpacked"
cargo package --quiet --offline --allow-dirty --no-verify --workspace \
  --exclude fascicle-testkit --exclude fascicle-emulator 2>&1 | { grep -v '^warning: ignoring test' || true; }
{
  printf '[workspace]\nresolver = "3"\nmembers = ["fascicle*"]\n[profile.dev]\ndebug = "line-tables-only"\n[patch.crates-io]\n'
  for archive in "$packed"/*.crate; do
    tar --extract --touch --gzip --file "$archive" --directory "$unpacked"
    folder=$(basename "$archive" .crate)
    for file in LICENSE-MIT LICENSE-APACHE; do
      test -s "$unpacked/$folder/$file" || { printf '%s packs no %s\n' "$folder" "$file" >&2; exit 1; }
    done
    printf '%s = { path = "%s" }\n' "${folder%-*}" "$folder"
  done
} >"$unpacked/Cargo.toml"
cp Cargo.lock "$unpacked"
cd "$unpacked"
cargo check --quiet --offline --workspace --all-targets --features fascicle/cuda,fascicle/rocm
cargo check --quiet --offline -p fascicle --no-default-features
printf '%s packages build from what they pack\n' "$(ls -d fascicle*/ | wc -l)"
