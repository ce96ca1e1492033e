//! Runs every model. One that fails prints the panic of the interleaving in which it failed; `LOOM_LOG=trace` prints
//! the steps of that interleaving.

macro_rules! models {
    ($($module:ident { $($model:ident)+ })+) => {
        $($(#[test]
        fn $model() {
            fascicle_interleavings::$module::$model();
        })+)+
    };
}

models! {
    signal {
        a_change_wakes_its_waiter
        a_change_wakes_every_waiter
        two_threads_take_turns
    }
    abort_signal {
        the_first_reason_stays
    }
    queues {
        jobs_run_in_order
        a_job_wakes_the_worker
        a_dropped_queue_has_run
        a_wait_orders_two_queues
        a_complete_event_orders_the_host
        a_failure_reaches_those_who_wait
        an_unwinding_rank_waits_for_nobody
    }
    collectives {
        no_buffer_is_used_after_its_round
        rounds_follow_each_other
        messages_cross
        a_timeout_is_for_all_or_none
        a_panic_fails_every_rank
        a_rank_that_leaves_is_not_waited_for
        a_dropped_call_ends_the_wait
        an_abort_ends_the_wait
        different_calls_end_the_group
        an_id_outlives_its_group
    }
    local {
        each_round_has_its_parts
        a_broadcast_waits_for_its_root
        the_reason_of_a_failed_rank_arrives
        a_rank_that_returned_is_named
        a_timeout_keeps_the_parts
        openings_meet_in_order
    }
    staged {
        no_memory_is_read_after_its_call
        a_rank_that_gives_up_awaits_readers
        a_rank_that_gives_up_awaits_the_device
        a_rank_that_left_is_named
        a_failure_wakes_the_other
        an_abort_ends_a_meeting
        ranks_join_one_group
    }
}
