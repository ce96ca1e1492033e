#!/usr/bin/env bash
# Licences, sources and versions of all packages that the workspace and the bindings depend on, and known vulnerabilities: the rules
# are in deny.toml. Packages come from the versions in Cargo.lock. What cannot be checked is reported.
#
# Usage: ci/deny.sh [FOLDER]...     the workspace, and every binding outside it, by default
#
# Needs: cargo install cargo-deny --locked.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo deny --version >/dev/null 2>&1; then
  echo 'deny: skipped: no cargo-deny (cargo install cargo-deny --locked)'
  exit 0
fi
folders=("$@")
[ $# -gt 0 ] || folders=(. bindings/candle bindings/burn)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Fetched before any check, so that a registry that cannot be reached is told from a rule that is broken.
for folder in "${folders[@]}"; do
  folder=${folder%/} manifest=${folder%/}/Cargo.toml
  [ "$folder" = . ] || cp Cargo.lock "$folder/Cargo.lock"
  if ! timeout 300 cargo fetch --quiet --manifest-path "$manifest" >"$log" 2>&1; then
    printf 'deny: skipped %s: %s\n' "$folder" "$(tail -n 1 "$log")"
    continue
  fi
  if ! cargo deny --offline --config deny.toml --manifest-path "$manifest" --workspace check licenses bans sources >"$log" 2>&1; then
    cat "$log" >&2
    printf 'deny: %s\n' "$folder" >&2
    exit 1
  fi
  printf 'deny: %s: %s\n' "$folder" "$(tail -n 1 "$log")"
done

# The list of known vulnerabilities is a repository of its own.
if timeout 120 cargo deny --config deny.toml fetch db >"$log" 2>&1; then
  cargo deny --offline --workspace check advisories
else
  printf 'deny: skipped advisories: their database cannot be reached (%s)\n' "$(grep -m 1 . "$log" | cut -c 1-200)"
fi
