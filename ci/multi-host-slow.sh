#!/usr/bin/env bash
# Part of ci/multi-host.sh --slow: two hosts of two ranks each, with 25 Mbit/s between them. Runs once with the
# tensor axis between the hosts, once with it inside each host, and once in the order that the program chooses. The
# planner's prediction for the same machine is printed beside each.
set -euo pipefail
hosts_slow 25mbit
# A frame of 1514 bytes carries 1448 bytes of the program's data: 25 Mbit/s are 2.989 MB/s.
quantity() { printf 's/^%s = { value = [0-9.]*/%s = { value = %s/;' "$1" "$1" "$2"; }
sed -e 's/^name = .*/name = "two-hosts"/;s/^nodes = .*/nodes = 2/;s/^devices_per_node = .*/devices_per_node = 2/' \
  -e 's/^devices_per_nic = .*/devices_per_nic = 2/' -e "$(quantity injection_gbps 0.002989)" \
  crates/grid/machines/laptop.toml >"$dir/two-hosts.toml"
training=(--grid x=2,data=2 --steps 8 --data "$dir/text.txt" --batch 16 --micro-batches 1 --set model.hidden=64
  --set model.layers=4 --set model.heads=2 --set model.context=64 --set training.validation_batches=1)

median() { sort -g | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
predicted() {
  "$fascicle" plan --machine "$dir/two-hosts.toml" --devices 4 --model "$1/config.toml" --grid x=2,data=2 --order "$2" \
    --batch-tokens 1024 --precision f32 --micro-batches 1 --recompute no --sharded-optimiser no --json |
    grep -oE '"step_s":[0-9.e-]+' | head -n 1 | cut -d: -f2
}
declare -A seconds forecast
for order in data,x,y,z,pipeline x,y,z,pipeline,data auto; do
  hosts_run 2 2 "$fascicle" train "${training[@]}" --set parallel.order="$order" --out "$dir/$order" >"$dir/log" 2>&1 ||
    fail "order $order: status $?"
  seconds[$order]=$(grep -oE '"step_s":[0-9.e-]+' "$dir/$order/metrics.jsonl" | cut -d: -f2 | tail -n 6 | median)
  [ "$order" = auto ] || forecast[$order]=$(predicted "$dir/$order" "$order")
  printf 'multi-host: order %-20s %8.1f ms per step, predicted %8s ms\n' "$order" \
    "$(awk "BEGIN { print 1e3 * ${seconds[$order]} }")" "$(awk "BEGIN { printf \"%.1f\", 1e3 * ${forecast[$order]:-0} }" | sed 's/^0.0$/-/')"
done
ratio() { awk "BEGIN { printf \"%.1f\", $1 / $2 }"; }
naive=data,x,y,z,pipeline near=x,y,z,pipeline,data
printf 'multi-host: the order that keeps X within a host is %s times as fast, predicted %s\n' \
  "$(ratio "${seconds[$naive]}" "${seconds[$near]}")" "$(ratio "${forecast[$naive]}" "${forecast[$near]}")"
printf 'multi-host: the order that the program chooses is %s times as fast\n' "$(ratio "${seconds[$naive]}" "${seconds[auto]}")"
measured=$(awk "BEGIN { print ${seconds[$naive]} / ${seconds[$near]} }")
expected=$(awk "BEGIN { print ${forecast[$naive]} / ${forecast[$near]} }")
awk "BEGIN { exit !($measured > 0.75 * $expected && $measured < 1.25 * $expected) }" ||
  fail "the ratio of the two orders is $measured, more than 25 % from the predicted $expected"
awk "BEGIN { exit !(${seconds[$naive]} > 0.75 * $expected * ${seconds[auto]}) }" ||
  fail 'the order that the program chooses gains less'
