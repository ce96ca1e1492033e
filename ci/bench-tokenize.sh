#!/usr/bin/env bash
# Times `fascicle data tokenize` beside the parallel encoder of the package tokenizers for Python, on one text and tokenizer, in turn.
#
#   ci/bench-tokenize.sh TEXT                 256 MiB of documents, 3 rounds
#   ci/bench-tokenize.sh TEXT 1024 2          MiB, rounds
#
# The documents are the paragraphs of TEXT in other orders, a few KiB each, as JSON lines. The tokenizer is a BPE of 8,192 tokens that the
# package trains on TEXT. The peer does what a short script would: read lines, encode_batch, append to a file of u16. Its documents are
# kept in memory 10,000 at a time. Prints the medians of tokens per second and the most memory, in MiB.
#
# Needs: python3 with venv; a build of the program with --features tokenizers in target/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
text=$(realpath "${1:?a text}") mib=${2:-256} rounds=${3:-3}
target=${CARGO_TARGET_DIR:-$root/target}
fascicle=$target/release/fascicle venv=$target/bench-tokenize/venv
dir=$target/bench-tokenize/data
mkdir -p "$dir"
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet tokenizers==0.23.3
fi
python=$venv/bin/python
"$python" "$root/ci/peers/tokenize_text.py" make "$text" "$mib" "$dir"
for round in $(seq "$rounds"); do
  rm -rf "$dir/ours"
  /usr/bin/time -f 'ours %M' -o "$dir/memory" "$fascicle" data tokenize "$dir/documents.jsonl" --out "$dir/ours" \
    --tokenizer "$dir/tokenizer.json" --json 2> /dev/null >> "$dir/ours.$round.json.tmp"
  mv "$dir/ours.$round.json.tmp" "$dir/ours.$round.json"
  awk '{ print $2 }' "$dir/memory" > "$dir/ours.$round.kib"
  for call in encode_batch encode_batch_fast; do
    /usr/bin/time -f '%M' -o "$dir/$call.$round.kib" "$python" "$root/ci/peers/tokenize_text.py" encode "$dir" "$call" > "$dir/$call.$round.json"
  done
  cat "$dir"/ours/tokens-*.u16 | cmp - "$dir/theirs.u16" || { echo 'bench-tokenize: the tokens differ' >&2; exit 1; }
done
"$python" "$root/ci/peers/tokenize_text.py" report "$dir" "$rounds"
