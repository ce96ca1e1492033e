#!/usr/bin/env bash
# Licences, sources and versions of all packages that the workspace and the bindings depend on, and known vulnerabilities: the rules
# are in deny.toml. Packages come from the versions in Cargo.lock. What cannot be checked is reported.
#
# Usage: ci/deny.sh [--if-changed | FOLDER...]     the workspace, and every binding outside it, by default
#
# With --if-changed, only if packages or rules are other than those that passed, of which ci/deny.sha256 is the digest: commit that
# with a change of them. Installs cargo-deny where it is missing, which takes two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
digest() { git ls-files Cargo.lock deny.toml '*Cargo.toml' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d ' ' -f 1; }
if [ "${1:-}" = --if-changed ]; then
  if [ "$(cat ci/deny.sha256 2>/dev/null)" = "$(digest)" ]; then
    echo 'deny: packages and rules are those that passed'
    exit 0
  fi
  shift
fi
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/deny
export PATH=$PATH:$tools/bin
if ! cargo deny --version >/dev/null 2>&1 && ! CARGO_TARGET_DIR=$tools/build timeout 900 cargo install cargo-deny --quiet --locked --root "$tools"; then
  echo 'deny: skipped: cargo-deny cannot be installed'
  exit 0
fi
rm -rf "$tools/build"
folders=("$@")
[ $# -gt 0 ] || folders=(. bindings/candle bindings/burn)
skipped=
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Fetched before any check, so that a registry that cannot be reached is told from a rule that is broken.
for folder in "${folders[@]}"; do
  folder=${folder%/} manifest=${folder%/}/Cargo.toml
  [ "$folder" = . ] || cp Cargo.lock "$folder/Cargo.lock"
  if ! timeout 300 cargo fetch --quiet --manifest-path "$manifest" >"$log" 2>&1; then
    printf 'deny: skipped %s: %s\n' "$folder" "$(tail -n 1 "$log")"
    skipped=$folder
    continue
  fi
  if ! cargo deny --offline --config deny.toml --manifest-path "$manifest" --workspace check licenses bans sources >"$log" 2>&1; then
    cat "$log" >&2
    printf 'deny: %s\n' "$folder" >&2
    exit 1
  fi
  printf 'deny: %s: %s\n' "$folder" "$(tail -n 1 "$log")"
done

[ $# -gt 0 ] || [ -n "$skipped" ] || digest > ci/deny.sha256

# The list of known vulnerabilities is a repository of its own.
if timeout 120 cargo deny --config deny.toml fetch db >"$log" 2>&1; then
  cargo deny --offline --workspace check advisories
else
  printf 'deny: skipped advisories: their database cannot be reached (%s)\n' "$(grep -m 1 . "$log" | cut -c 1-200)"
fi
