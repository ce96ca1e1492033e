//! Schedules that continue into the next step: what each guarantees, and which ends of steps the check refuses.

use super::super::{
    Action, Overlapped, ScheduleKind, Times, check_overlapped, overlapped::STEPS, pipedream,
    pipedream_2bw,
};

#[test]
fn all_sizes_check_and_keep_what_1f1b_keeps() {
    for num_stages in 1..=9 {
        for num_micro_batches in num_stages..=20 {
            let overlapped = pipedream_2bw(num_stages, num_micro_batches).unwrap();
            let report = check_overlapped(&overlapped).unwrap();
            for (stage, peak) in report.peak_live.into_iter().enumerate() {
                assert_eq!(peak, num_stages - stage);
            }
        }
    }
    let text = pipedream_2bw(4, 3).unwrap_err().to_string();
    assert_eq!(
        text,
        "pipedream-2bw: 4 stages, 3 micro-batches, needs at least as many micro-batches as stages"
    );
}

// When each stage begins and ends its steps: all begin together, because an update waits for the norm of all gradients.
fn step_ends(overlapped: &Overlapped, [forward, backward]: [f64; 2]) -> Vec<f64> {
    let num_stages = overlapped.ends.len();
    let mut clocks = vec![0.0_f64; num_stages];
    let mut done = std::collections::HashMap::new();
    let mut ends = Vec::new();
    for step in 0..STEPS {
        let mut left: Vec<_> = (0..num_stages)
            .map(|stage| {
                let [first, second] = overlapped.ends[stage];
                let list = &overlapped.steps.stages[stage];
                let list = [&list[..first], &list[first..second], &list[second..]][step];
                let runs = list.iter().filter(|action| action.peer().is_none());
                runs.copied().collect::<std::collections::VecDeque<_>>()
            })
            .collect();
        while left.iter().any(|list| !list.is_empty()) {
            let mut advanced = false;
            for stage in 0..num_stages {
                while let Some(action) = left[stage].front().copied() {
                    let is_forward = matches!(action, Action::Forward { .. });
                    let source = match is_forward {
                        true => stage.checked_sub(1),
                        false => Some(stage + 1).filter(|next| *next < num_stages),
                    };
                    let key = |stage| (is_forward, action.micro_batch(), stage);
                    let input = match source.map(|source| done.get(&key(source))) {
                        Some(None) => break,
                        Some(Some(at)) => *at,
                        None => 0.0,
                    };
                    let took = if is_forward { forward } else { backward };
                    clocks[stage] = clocks[stage].max(input) + took;
                    done.insert(key(stage), clocks[stage]);
                    left[stage].pop_front();
                    advanced = true;
                }
            }
            assert!(
                advanced,
                "a stage waits in step {step} for what comes after it"
            );
        }
        let end = clocks.iter().copied().fold(0.0, f64::max);
        clocks.fill(end);
        ends.push(end);
    }
    ends
}

#[test]
fn a_step_in_between_idles_for_one_forward_whatever_the_stages() {
    for num_stages in 2..=9 {
        for num_micro_batches in num_stages..=20 {
            let overlapped = pipedream_2bw(num_stages, num_micro_batches).unwrap();
            let ends = step_ends(&overlapped, [1.0, 2.0]);
            let works = 3.0 * num_micro_batches as f64;
            assert_eq!(
                ends[1] - ends[0],
                works + 1.0,
                "{num_stages}x{num_micro_batches}"
            );
            // With backwards as long as forwards, or longer, less than half of the bubble of 1F1B is left.
            for times in [[1.0, 1.0], [1.0, 3.0]] {
                let ends = step_ends(&overlapped, times);
                let pass = times[0] + times[1];
                let idle = ends[1] - ends[0] - pass * num_micro_batches as f64;
                assert!(
                    2.0 * idle <= pass * (num_stages - 1) as f64,
                    "{idle} for {times:?}"
                );
            }
        }
    }
}

#[test]
fn an_end_at_another_place_is_refused_with_its_stage() {
    let good = pipedream_2bw(4, 6).unwrap();
    let refused = |change: fn(&mut Overlapped)| {
        let mut overlapped = good.clone();
        change(&mut overlapped);
        check_overlapped(&overlapped).unwrap_err().to_string()
    };
    let early = refused(|overlapped| overlapped.ends[2] = overlapped.ends[2].map(|end| end - 12));
    assert!(
        early.contains("stage 2: ") && early.ends_with("needs it before the step ends"),
        "{early}"
    );
    let far = refused(|overlapped| overlapped.ends[0][0] += 30);
    assert!(
        far.contains("stage 0: ") && far.ends_with("needs at most the next batch ahead"),
        "{far}"
    );
    let uneven = refused(|overlapped| overlapped.ends[3][1] += 2);
    assert!(uneven.contains("stage 3: other passes ahead"), "{uneven}");
    let ahead = refused(|overlapped| overlapped.ends[3] = overlapped.ends[3].map(|end| end + 6));
    assert!(
        ahead.contains("stage 3: ") && ahead.contains("ahead, needs at most"),
        "{ahead}"
    );
}

#[test]
fn each_update_finds_the_version_that_its_micro_batch_has_read() {
    for num_stages in 1..=7 {
        for num_micro_batches in num_stages..=16 {
            let overlapped = pipedream(num_stages, num_micro_batches).unwrap();
            let report = check_overlapped(&overlapped).unwrap();
            for (stage, list) in overlapped.steps.stages.iter().enumerate() {
                let versions = num_stages - stage;
                assert_eq!(overlapped.versions[stage], versions);
                assert_eq!(report.peak_live[stage], versions);
                assert_eq!(overlapped.ahead(stage), [versions - 1, 0]);
                // Updates that are done when a micro-batch runs forward: all but those of the ones in flight.
                let mut updates = 0;
                for action in list {
                    match *action {
                        Action::Forward { micro_batch, .. } => {
                            assert_eq!(updates, (micro_batch + 1).saturating_sub(versions));
                        }
                        Action::Backward { micro_batch, .. } => {
                            assert_eq!(updates, micro_batch);
                            updates += 1;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    let text = pipedream(4, 3).unwrap_err().to_string();
    assert_eq!(
        text,
        "pipedream: 4 stages, 3 micro-batches, needs at least as many micro-batches as stages"
    );
}

#[test]
fn a_step_with_an_update_for_each_micro_batch_idles_for_the_backwards_of_the_other_stages() {
    for num_stages in 1..=7 {
        for num_micro_batches in num_stages..=16 {
            let overlapped = pipedream(num_stages, num_micro_batches).unwrap();
            for (forward, backward) in [(1.0, 2.0), (1.0, 1.0), (3.0, 1.0), (1.0, 3.0)] {
                let ends = step_ends(&overlapped, [forward, backward]);
                let works = (forward + backward) * num_micro_batches as f64;
                let idle = ends[1] - ends[0] - works;
                let told = format!("{num_stages}x{num_micro_batches}, {forward} and {backward}");
                assert_eq!(idle, backward * (num_stages - 1) as f64, "{told}");
                let times = Times::halves(forward, backward);
                assert_eq!(ScheduleKind::PipeDream.idle_us(num_stages, &times), idle);
                let bubble = ScheduleKind::PipeDream.bubble(num_stages, num_micro_batches, &times);
                assert_eq!(bubble, Some(idle / (works + idle)), "{told}");
            }
        }
    }
}

#[test]
fn a_stash_that_is_too_small_is_refused_with_its_stage() {
    let good = pipedream(4, 6).unwrap();
    let mut few = good.clone();
    few.versions[1] = 2;
    let text = check_overlapped(&few).unwrap_err().to_string();
    assert_eq!(
        text,
        "check: stage 1: 3 micro-batches between forward and backward, needs at most its 2 versions"
    );
    let mut late = good.clone();
    late.ends[3] = late.ends[3].map(|end| end + 4);
    let text = check_overlapped(&late).unwrap_err().to_string();
    assert!(
        text.contains("stage 3: 1 backwards ahead, needs none"),
        "{text}"
    );
}
