# Faults of processes: killed, stopped, asked to end, cut off. Sourced by ci/faults.sh.

# All ranks at once, as threads of one process.
fault_killed_job() {
  local before
  fresh
  before=$(newest)
  "$fascicle" train --resume "$run" --steps 1000000 >"$dir/log" 2>&1 &
  job=$!
  sleep "0.$(random 150 900)"
  kill -KILL "$job"
  finish $SECONDS
  intact "$before"
  resumes
}

# on_mpi: a run of four processes.
on_mpi() {
  run=$dir/runs/$fault-$round
  mkdir -p "$dir/runs"
  grid=${grids[$(random 0 3)]}
  begin mpirun -n 4 "$fascicle" train "${small[@]}" --grid "$grid" --steps 1000000 --out "$run"
}
# one_rank: a process of the run and its rank.
one_rank() {
  local all=($(ranks))
  [ "${#all[@]}" -eq 4 ] || fail "${#all[@]} processes, needs 4"
  victim=${all[$(random 0 3)]}
  rank=$(tr '\0' '\n' <"/proc/$victim/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
}

# signalled_rank SIGNAL TEXT: one rank gets the signal; the report has the text, in which RANK and PROCESS stand for it.
signalled_rank() {
  command -v mpirun >/dev/null || { skip 'no mpirun'; return; }
  on_mpi
  one_rank
  local before=$(newest) begun=$SECONDS text=${2//RANK/$rank}
  kill "-$1" "$victim"
  finish "$begun"
  [ "$status" -ne 0 ] || fail 'status 0'
  says "${text//PROCESS/$victim}"
  intact "$before"
  resumes
}
fault_killed_rank() { signalled_rank KILL 'rank RANK failed: its process PROCESS on .* has died'; }
fault_stopped_rank() { signalled_rank STOP 'rank RANK does not answer|waited [3-9].* for rank RANK'; }

fault_asked_to_end() {
  local begun signals=(TERM HUP USR1 XCPU)
  run=$dir/runs/$fault-$round
  mkdir -p "$dir/runs"
  begin "$fascicle" train "${small[@]}" --grid "${grids[$(random 0 3)]}" --steps 1000000 --out "$run"
  begun=$SECONDS
  kill "-${signals[$(random 0 3)]}" "$job"
  finish "$begun"
  [ "$status" -eq 3 ] || fail "status $status, needs 3"
  # The last step that was recorded has its checkpoint.
  intact "$(tail -n 1 "$run/metrics.jsonl" | grep -oE '"step":[0-9]+' | grep -oE '[0-9]+')"
  resumes
}

fault_cut_link() {
  command -v mpirun >/dev/null || { skip 'no mpirun'; return; }
  if [ -z "${hosts_ready:-}" ]; then
    source ci/hosts.sh
    if ! (hosts_try) 2>"$dir/log" || [ -s "$dir/log" ]; then skip "$(head -n 1 "$dir/log")"; return; fi
    hosts_up 2
    hosts_ready=1
  fi
  run=$dir/runs/$fault-$round
  mkdir -p "$dir/runs"
  begin hosts_run 2 2 "$fascicle" train "${small[@]}" --grid "${grids[$(random 0 3)]}" --steps 1000000 --out "$run"
  local before=$(newest) begun=$SECONDS
  ip -n "$hosts_name-2" link set net down
  bound=30 finish "$begun"
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "status $status"
  # Each side can only name a rank of the other.
  says 'rank [01] failed: .*waited [3-9].* for rank'
  intact "$before"
  resumes
  ip -n "$hosts_name-2" link set net up
}
