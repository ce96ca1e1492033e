#!/usr/bin/env bash
# Compares `fascicle eval` with lm-evaluation-harness on a random model: the log-likelihood of each choice, what the model would
# write, acc, acc_norm and acc_bytes, and the perplexities of texts that are longer than the model's context.
#
# Usage: ci/check-lm-eval.sh      PYTHON names a Python that has torch, transformers (ci/peers/requirements.txt) and lm_eval 0.4.13;
#                                 FASCICLE a program with --features tokenizers, by default target/release/fascicle
# It needs 6 GB of Python packages, and is not part of .ci/run: crates/families/tests/evaluation compares with logits.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath -m "${FASCICLE:-target/release/fascicle}")
[ -x "$program" ] || cargo build --quiet --release --features tokenizers
python=${PYTHON:-python3} dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$python" ci/peers/lm_eval.py make "$dir" > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"$program" checkpoint import "$dir/model" --out "$dir/run" > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
for grid in x=1 x=2,pipeline=2; do
  "$program" eval --checkpoint "$dir/run" --text "$dir/text.jsonl" --tasks "$dir/questions.jsonl" --samples "$dir/samples.jsonl" \
    --grid $grid --json > "$dir/ours.json" 2> "$dir/log" || { cat "$dir/log"; exit 1; }
  printf '\ngrid %s: theirs and ours\n' $grid
  "$python" ci/peers/lm_eval.py compare "$dir" 2> "$dir/log" | grep -v requests || { tail -n 5 "$dir/log"; exit 1; }
done
