# What ci/package.sh and ci/release.sh share; both source it in the root of the repository.

# pack TARGET [OPTION...] makes the packages of all published crates in TARGET/package, as `cargo publish` makes them, without
# building them. Options are those of `cargo package`.
pack() {
  local target=$1 names
  shift
  names=$(python3 ci/release/packages.py) || return
  rm -rf "$target/package"
  cargo package --quiet --offline --no-verify --target-dir "$target" "$@" $(printf -- '-p %s ' $names) 2>&1 |
    { grep -Ev '^warning: ignoring test|^$' || true; }
}
