# Sourced by the scripts that show that tests detect faults: these are planted one by one in a copy of the sources. The
# script then defines plant_build, which compiles the tests, and plant_test NAME, which runs one.
#
# plant_sources FOLDER copies the sources to that folder below target/, changes to the copy, and begins to count.
plant_sources() {
  local copy
  plants=$(realpath -m "${CARGO_TARGET_DIR:-target}")/$1
  copy=$plants/sources
  rm -rf "$copy"
  mkdir -p "$copy"
  git ls-files -z | xargs -0 cp --parents -t "$copy" 2> /dev/null || true
  cd "$copy"
  export CARGO_TARGET_DIR=$plants CARGO_INCREMENTAL=0 RUST_BACKTRACE=0
  missed=0 planted=0
}

# plant FILE SCRIPT TEST edits a file below crates/ with sed, and expects the test to fail.
plant() {
  local file=crates/$1
  cp --preserve=timestamps "$file" "$plants/original"
  sed -i -E "$2" "$file"
  if cmp -s "$file" "$plants/original"; then printf 'no such line: %s: %s\n' "$1" "$2" >&2; exit 1; fi
  if ! plant_build > "$plants/log" 2>&1; then
    printf 'does not compile: %s: %s\n' "$1" "$2" >&2; tail -20 "$plants/log" >&2; exit 1
  fi
  planted=$((planted + 1))
  if plant_test "$3" > "$plants/log" 2>&1; then
    printf 'missed by %s: %s: %s\n' "$3" "$1" "$2"
    missed=$((missed + 1))
  else
    printf '%s: %s: %s\n' "$3" "$1" "$2"
  fi
  mv "$plants/original" "$file"
  touch "$file"
}

plant_end() {
  if [ $missed -gt 0 ]; then printf '%s of %s faults missed\n' $missed $planted >&2; exit 1; fi
  printf 'all %s faults found\n' $planted
}
