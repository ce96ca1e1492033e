#!/usr/bin/env bash
# Prepares a release and uploads nothing: ci/release.sh VERSION [--no-checks].
# It demands a clean tree, one version in all manifests and a section of CHANGELOG.md for it, and that the checks of .ci/run,
# those of all bindings and a build of the packages pass, which --no-checks skips. target/release-VERSION/ then has the
# packages, SHA256SUMS and notes.md. The commands that publish are printed in their order, for a person to run.
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() { printf 'release: %s\n' "$*" >&2; exit 1; }
# checked COMMAND... runs it, and its complaint is what the release is refused with.
checked() { local said; said=$("$@" 2>&1) || refuse "$said"; printf '%s' "$said"; }

version='' checks=yes
for argument; do
  case $argument in
    --no-checks) checks=no ;;
    -*) refuse "unknown option $argument; the usage is ci/release.sh VERSION [--no-checks]" ;;
    *) [ -z "$version" ] || refuse "found two versions, $version and $argument"; version=$argument ;;
  esac
done
[ -n "$version" ] || refuse 'found no version; the usage is ci/release.sh VERSION [--no-checks]'
[[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] ||
  refuse "$version is not a version such as 0.2.0 or 0.2.0-rc.1"

changed=$(git status --porcelain 2>/dev/null) || refuse 'this is not a git repository'
[ -z "$changed" ] || refuse "the tree is not clean; files that differ from the commit: $(wc -l <<<"$changed"), such as $(awk 'NR == 1 { print $2 }' <<<"$changed")"
commit=$(git rev-parse HEAD)
tagged=$(git rev-parse --quiet --verify "refs/tags/v$version^{commit}" || true)
[ -z "$tagged" ] || [ "$tagged" = "$commit" ] || refuse "the tag v$version is another commit, ${tagged:0:12}"
checked python3 ci/release/versions.py "$version"
checked python3 ci/release/notes.py "$version" >/dev/null
names=$(checked python3 ci/release/packages.py)

target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/release-$version
[ ! -e "$out" ] || refuse "$out exists; remove it to make it again"
if [ "$checks" = yes ]; then
  bash .ci/run || refuse 'a check of .ci/run fails'
  # What takes too long to build for every change.
  bash ci/bindings.sh candle burn || refuse 'a check of ci/bindings.sh candle burn fails'
  bash ci/package.sh --build || refuse 'a check of ci/package.sh --build fails'
else
  printf 'checks: skipped (--no-checks)\n'
fi

# Complete or not at all.
work=$target/making-release-$version
trap 'rm -rf "$work"' EXIT
rm -rf "$work"
mkdir -p "$work"
source ci/release/packaging.sh
said=$(pack "$target") || refuse "cargo package fails: $(tr '\n' ' ' <<<"$said")"
for name in $names; do
  archive=$target/package/$name-$version.crate
  [ -s "$archive" ] || refuse "cargo package made no $name-$version.crate"
  cp "$archive" "$work"
done
python3 ci/release/notes.py "$version" >"$work/notes.md"
(cd "$work" && sha256sum -- *.crate notes.md >SHA256SUMS)
[ -z "$(git status --porcelain)" ] || refuse 'the tree changed while the release was made'
mv "$work" "$out"

printf '%s packages of %s (commit %s) are in %s\n' "$(wc -w <<<"$names")" "$version" "${commit:0:12}" "$out"
printf 'To publish them, run in this order:\n\n'
printf '  git tag v%s %s\n' "$version" "$commit"
printf '  cargo publish -p %s\n' $names
