#!/usr/bin/env bash
# The same bits on every grid, at length: `ci/bits.sh all` trains every model and type on all grids for 50 steps;
# `ci/bits.sh faults` plants faults in the order of sums, one by one in a copy of the sources, and expects tests/bits.rs
# to fail. What runs with the tests is a part of the first.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

if [ "${1:-}" = all ]; then
  FASCICLE_BITS=all exec cargo test --test bits -- --test-threads=1
fi
if [ "${1:-}" != faults ]; then
  printf 'ci/bits.sh: found `%s`, needs all or faults\n' "${1:-}" >&2
  exit 2
fi

source ci/plant.sh
plant_sources bits
plant_build() { cargo test --quiet --test bits --no-run; }
plant_test() { timeout 300 cargo test --quiet --test bits -- --exact "$1"; }

every=gpt2_tied_with_dropout_on_every_grid
uneven=numbers_of_ranks_that_are_no_powers_of_two
batches=every_number_of_micro_batches
# The tree: which nodes are joined, and in which order the last ones are.
plant hal/src/sums.rs 's/is_multiple_of\(2 \* len.max\(1\)\)/is_multiple_of(len.max(1))/' $uneven
plant parallel/src/sums/mod.rs 's/while let \[\.\., \(_, left\), \(_, right\)\]/while let [(_, left), (_, right), ..]/; s/^        nodes.pop\(\);/        nodes.remove(1);/' $uneven
plant parallel/src/sums/held.rs '/all.sort_by_key/d' $batches
# Leaves: their borders and their length.
plant grid/src/shard.rs 's/let shard = shard_range\(leaves, num_shards, index\);/return shard_range(len, num_shards, index);\n    #[allow(unreachable_code)]\n    let shard = 0..leaves;/' $every
plant parallel/src/sums/products.rs 's/\(features.own\(\), features.leaf\)/(features.own(), hal::sums::leaf(self.a.columns()))/' $every
plant parallel/src/layers/linear/backward.rs 's/\.terms\(inner\)/.terms(2 * inner)/' $batches
plant tensor/src/ops/loss.rs 's/sums::leaf\(shard.vocabulary\)/sums::leaf(columns)/' llama_with_grouped_heads_recomputed
# Uses, rows and types that must stay apart.
plant parallel/src/pass/rows.rs 's/^        \*count - 1$/        0 * *count/' $every
plant parallel/src/layers/embedding.rs 's/\(_, false\) => return/(_, _) if by_nodes => return/; s/\(_, true\) => pass/_ => pass/' $batches
plant parallel/src/layers/norm.rs 's/pass.nodes\(inner, Grain::Leaf\)/pass.nodes(inner, Grain::Node)/' $batches
plant parallel/src/sums/products.rs 's/let node = context.buffer\(a.dtype\(\).accumulator\(\)/let node = context.buffer(a.dtype()/' bf16_and_f16
plant parallel/src/data/norm.rs 's/reproducible == Reproducible::Run/reproducible != Reproducible::Run/' $every

plant_end
