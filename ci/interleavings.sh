#!/usr/bin/env bash
# Shows that the models of crates/interleavings detect faults: plants them one by one in a copy of the sources, and expects
# the named model to fail. The models themselves run with the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/plant.sh
plant_sources interleavings
plant_build() { cargo test --quiet -p fascicle-interleavings --no-run; }
plant_test() { timeout 120 cargo test --quiet -p fascicle-interleavings --test models -- --exact "$1"; }

wait=cpu/src/wait.rs
plant $wait '/self.wake.notify_all/d' a_change_wakes_its_waiter
plant $wait '/drop\(lock\(&self.lock\)\)/d' a_change_wakes_its_waiter
plant $wait '0,/fence\(Ordering::SeqCst\);/s///' a_change_wakes_its_waiter
plant $wait '/sleepers.fetch_add/{n;d}' a_change_wakes_its_waiter
plant $wait 's/changes.fetch_add\(1, Ordering::Release\)/changes.fetch_add(1, Ordering::Relaxed)/' a_change_wakes_its_waiter
plant $wait 's/changes.load\(Ordering::Acquire\)/changes.load(Ordering::Relaxed)/' a_change_wakes_its_waiter

queue=cpu/src/stream/queue.rs
plant $queue '/steps.push_back\(step\)/{n;d}' a_job_wakes_the_worker
plant $queue '/thread::panicking\(\), Ordering/{n;d}' a_dropped_queue_has_run
plant $queue '/let _ = worker.join\(\)/d' a_dropped_queue_has_run
plant $queue 's/let step = state.steps.pop_front\(\);/let step = if state.closed { None } else { state.steps.pop_front() };/' a_dropped_queue_has_run
plant $queue 's/state.busy = step.is_some\(\)/state.busy = false/' jobs_run_in_order
plant $queue '/state.failed.clone\(\).map_or\(Ok\(\(\)\), Err\)\?/d' a_failure_reaches_those_who_wait
plant $queue 's/self.cancelled.load\(Ordering::Relaxed\) \{/false {/' an_unwinding_rank_waits_for_nobody
plant cpu/src/stream/event.rs '/self.signal.raise/d' a_wait_orders_two_queues

round=cpu/src/collectives/round.rs
plant $round 's/fetch_sub\(1, Ordering::AcqRel\)/fetch_sub(1, Ordering::Acquire)/' no_buffer_is_used_after_its_round
plant $round 's/left.load\(Ordering::Acquire\)/left.load(Ordering::Relaxed)/' no_buffer_is_used_after_its_round
plant $round 's/if !work.is_done\(\)/if false/' no_buffer_is_used_after_its_round
plant $round 's/if catch_unwind\(AssertUnwindSafe\(work\)\).is_err\(\)/work(); if false/' a_panic_fails_every_rank
group=cpu/src/collectives/group.rs
plant $group '/\.for_each\(\|rank\| self.signals\[rank\].raise\(\)\);/s/self.signals\[rank\].raise\(\)/drop(rank)/' an_id_outlives_its_group
plant $group 's/self.ranks\(key\).for_each\(\|rank\| self.signals\[rank\].raise\(\)\)/()/' no_buffer_is_used_after_its_round
plant $group '/self.signals.iter\(\).for_each\(Signal::raise\)/d' a_rank_that_leaves_is_not_waited_for
plant $group 's/state.left.insert\(rank, counters\);/drop(counters);/' a_rank_that_leaves_is_not_waited_for
plant $group '/state.gathering.remove\(&ticket.key\)/d' a_timeout_is_for_all_or_none
plant $group 's/Some\(error\) = self.mismatch\(ticket.key, &calls\)/Some(error) = None::<Error>/' different_calls_end_the_group
member=cpu/src/collectives/member.rs
plant $member '/signal.wait\(seen, limit\)/{n;d}' an_abort_ends_the_wait
plant $member '/let Some\(ticket\) = self.tickets.first\(\)/s/self.tickets.first\(\)/None::<\&Ticket>/' a_dropped_call_ends_the_wait
plant cpu/src/collectives/registry.rs '/groups.retain/d' an_id_outlives_its_group

channel=bootstrap/src/local/channel.rs
plant $channel '0,/self.completed.notify_all\(\);/s///' each_round_has_its_parts
plant $channel 's/round.done == self.members.len\(\)/round.done > 0/' each_round_has_its_parts
plant bootstrap/src/local/exchange.rs '/let ended = missing/,/abort.check/{/abort.check/d}' the_reason_of_a_failed_rank_arrives
board=bootstrap/src/local/board.rs
plant $board 's/store\(true, Ordering::Release\)/store(true, Ordering::Relaxed)/' the_reason_of_a_failed_rank_arrives
plant $board 's/load\(Ordering::Acquire\)/load(Ordering::Relaxed)/' the_reason_of_a_failed_rank_arrives
plant $board '/self.opened\[index\] \+= 1;/d' openings_meet_in_order

staged=gpu/src/collectives/staged/group.rs
plant $staged '/insert\(rank, post\);/{n;d}' no_memory_is_read_after_its_call
plant $staged '/meeting.taken == ranks.len/s/ranks.len\(\)/1/' no_memory_is_read_after_its_call
plant $staged '/fn fail_locked/{n;d}' a_failure_wakes_the_other
plant $staged '/left.insert\(rank\);/{n;d}' a_rank_that_left_is_named
plant $staged 's/while !state.readings.are_over\(\)/while false/' a_rank_that_gives_up_awaits_readers
plant $staged 's/if self.failed.is_some\(\) && !key.is_read\(\)/if false/' a_rank_that_gives_up_awaits_readers
plant $staged '/join.abort.check\(\)/d' an_abort_ends_a_meeting
plant gpu/src/collectives/staged/readings.rs 's/end.is_some_and\(\|point\| point.is_complete\(\).unwrap_or\(true\)\)/end.is_some()/' a_rank_that_gives_up_awaits_the_device
plant gpu/src/collectives/staged/registry.rs '/groups.push/d' ranks_join_one_group

plant_end
