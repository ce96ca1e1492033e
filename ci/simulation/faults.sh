# Sourced by ci/simulation.sh: plants faults in a copy of the sources, each behind a switch, so that one build has all of them. Scenarios
# then run with one switch at a time, from the first seed on, until one finds the fault.
#
# FASCICLE_PLANTS="a b" tries these alone.

# The scenarios within which every fault is found.
enough=400

source ci/plant.sh
plant_sources simulated-faults
# Not the folder of the ordinary scenarios: cargo takes the crates of both for the same.
export CARGO_TARGET_DIR=$plants

cat >> crates/simulation/src/sync/mod.rs << 'EOF'

/// Whether the fault of this name is planted. What a scenario is compared with runs outside simulations, and has none.
pub fn is_planted(name: &str) -> bool {
    static PLANTED: LazyLock<String> = LazyLock::new(|| std::env::var("FASCICLE_PLANT").unwrap_or_default());
    turn::own().is_some() && *PLANTED == name
}
EOF

names=()
# switch NAME FILE SCRIPT: edits a file below crates/ with sed; P in the script stands for the switch.
switch() {
  local file=crates/$2 before
  names+=("$1")
  before=$(sha256sum "$file")
  sed -i -E "${3//@P/hal::sync::is_planted(\"$1\")}" "$file"
  [ "$before" != "$(sha256sum "$file")" ] || { printf 'no such line: %s: %s\n' "$2" "$3" >&2; exit 1; }
}

# Waiting threads.
switch lost_notification cpu/src/wait.rs 's/self.wake.notify_all\(\);/if !@P { self.wake.notify_all(); }/'
switch lost_end_of_a_queue cpu/src/stream/event.rs 's/self.signal.raise\(\);/if !@P { self.signal.raise(); }/'
switch idle_too_early cpu/src/stream/queue.rs 's/state.busy = step.is_some\(\)/state.busy = !@P \&\& step.is_some()/'
# Collectives.
switch leaves_before_its_peers_have_read cpu/src/collectives/round.rs 's/if !work.is_done\(\)/if !@P \&\& !work.is_done()/'
switch order_of_arrival cpu/src/collectives/group.rs 's/gathering.calls\[ticket.place\] = /let place = if @P { gathering.calls.iter().position(Option::is_none).unwrap_or(0) } else { ticket.place };\n        gathering.calls[place] = /'
switch wrong_message cpu/src/collectives/communicator.rs 's/number: next\(&mut counters.sent\[to\]\)/number: next(\&mut counters.sent[to]) ^ u64::from(@P)/'
switch unchecked_abort cpu/src/collectives/member.rs 's/if let Err\(error\) = self.abort.check\(\) \{/if let Some(error) = self.abort.check().err().filter(|_| !@P) {/'
switch collective_without_timeout cpu/src/collectives/member.rs 's/if waited < self.member.timeout/if @P || waited < self.member.timeout/'
# Exchanges between the hosts of ranks.
switch barrier_of_one_too_few bootstrap/src/local/channel.rs 's/round.done == self.members.len\(\)/round.done + usize::from(@P) == self.members.len()/'
switch exchange_without_timeout bootstrap/src/local/exchange.rs 's/None if start.elapsed\(\) >= /None if !@P \&\& start.elapsed() >= /'
switch lost_vote bootstrap/src/local/exchange.rs 's/\.any\(\|part\| part == &\[1\]\)/.take(if @P { 1 } else { usize::MAX }).any(|part| part == \&[1])/'
switch mixed_rounds bootstrap/src/local/channel.rs '0,/let mut rounds = lock\(&self.rounds\);/s//let mut rounds = lock(\&self.rounds);\n        let sequence = if @P { rounds.keys().min().copied().unwrap_or(sequence) } else { sequence };/'
switch failure_that_nobody_hears_of bootstrap/src/local/rank.rs 's/Err\(\(reason, _\)\) => job.fail\(rank, reason\),/Err((reason, _)) => if !@P { job.fail(rank, reason) },/'
# Checkpoints.
switch two_writers_behind train/src/trainer/behind.rs 's/let before = self.finish\(\)\?;/let before = if @P { None } else { self.finish()? };/'
switch slow_disk_not_waited_for train/src/trainer/disk_work.rs 's/while self.show\(false\)\? \{\}/while !@P \&\& self.show(false)? {}/'
switch manifest_not_synced checkpoint/src/writer.rs '/file.write_all\(bytes\)/,/file.sync\(\)/s/file.sync\(\)/if @P { Ok(()) } else { file.sync() }/'

program=$(build)
missed=0
for name in ${FASCICLE_PLANTS:-${names[@]}}; do
  log=$plants/$name.log
  if FASCICLE_PLANT=$name scenarios "$program" 0 "$enough" 0 > "$log"; then
    printf '%s: missed\n' "$name"
    missed=$((missed + 1))
  else
    # A fault may also end the process, by a signal or by never ending.
    printf '%s: %s\n' "$name" "$(grep -m1 -oE 'FASCICLE_SEED=[0-9]+.*' "$log" | cut -c1-160 || true)"
  fi
done
[ $missed = 0 ] || { printf '%s faults missed\n' "$missed" >&2; exit 1; }
printf 'all %s faults found\n' "${#names[@]}"
