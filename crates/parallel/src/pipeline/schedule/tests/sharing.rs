//! Streams that messages share: which schedules finish.

use super::super::*;

// The links of a model whose parts hand on to the next one, and over `over` parts.
fn links(stages: Stages, over: &[usize]) -> Vec<(usize, usize)> {
    let number = stages.num_parts();
    let crosses =
        |link: &(usize, usize)| stages.location(link.0).stage != stages.location(link.1).stage;
    let to = |from: usize| over.iter().map(move |over| (from, from + 1 + over));
    let all = (0..number).flat_map(to).filter(|link| link.1 < number);
    all.filter(crosses).collect()
}

// Those of the ways to share under which all stages finish, in the first step and in later ones.
fn finishing(
    (lists, stages): &(Vec<Vec<Vec<Action>>>, Stages),
    links: &[(usize, usize)],
) -> Vec<Sharing> {
    let finishes = |sharing: &Sharing| {
        [false, true].into_iter().all(|known| {
            let steps = Steps {
                lists,
                stages: *stages,
                links,
                known,
            };
            finishes(&steps, *sharing)
        })
    };
    Sharing::ALL.into_iter().filter(finishes).collect()
}

fn listed(kind: &str, number: usize, micro_batches: usize) -> (Vec<Vec<Vec<Action>>>, Stages) {
    let schedule = build(kind.parse().unwrap(), number, micro_batches).unwrap();
    let stages = Stages {
        number,
        ..schedule.arrangement()
    };
    let own = |(stage, list): (usize, &Vec<Action>)| {
        let mut lists = vec![list.clone()];
        lists.extend(evaluation(stages, stage, micro_batches..2 * micro_batches));
        lists
    };
    let lists = schedule.stages.iter().enumerate().map(own).collect();
    (lists, stages)
}

#[test]
fn neighbours_finish_with_two_streams_unless_a_v_turns() {
    for number in 2..=8 {
        for micro_batches in [number, 2 * number, 4 * number] {
            for kind in ["gpipe", "1f1b", "interleaved:2", "interleaved:3", "zb-h1"] {
                let steps = listed(kind, number, micro_batches);
                let found = finishing(&steps, &links(steps.1, &[0]));
                assert_eq!(found, Sharing::ALL, "{kind}, {number}, {micro_batches}");
            }
            let steps = listed("zb-v", number, micro_batches);
            let found = finishing(&steps, &links(steps.1, &[0]));
            let needed = match (number, micro_batches) {
                _ if micro_batches == number => &Sharing::ALL[..],
                // A run of 5 stages in which both ways of the V shared streams waited for ever.
                (..5, _) => &Sharing::ALL[..3],
                _ => &Sharing::ALL[..2],
            };
            assert_eq!(found, needed, "zb-v, {number}, {micro_batches}");
        }
    }
}

#[test]
fn overlapped_steps_finish_with_two_streams() {
    for number in 2..=8 {
        for micro_batches in [number, 2 * number + 1] {
            for make in [pipedream, pipedream_2bw] {
                let overlapped = make(number, micro_batches).unwrap();
                let stages = Stages::plain(number);
                let lists = (0..number).map(|stage| overlapped.lists(stage)).collect();
                let found = finishing(&(lists, stages), &links(stages, &[0]));
                assert_eq!(found, Sharing::ALL, "{number}, {micro_batches}");
            }
        }
    }
}

#[test]
fn links_that_skip_parts_need_streams_of_their_own() {
    for kind in ["1f1b", "interleaved:2", "zb-h1", "zb-v"] {
        for number in [4, 6] {
            let steps = listed(kind, number, 2 * number);
            let found = finishing(&steps, &links(steps.1, &[0, 1]));
            assert_eq!(found, [Sharing::Links], "{kind}, {number}");
        }
    }
}

// Both stages send before they receive, on streams that hold both.
#[test]
fn messages_that_cross_on_one_stream_do_not_finish() {
    let forward = |micro_batch, chunk| Action::Forward { micro_batch, chunk };
    let stages = Stages {
        number: 2,
        chunks: 2,
        placement: Placement::Wrap,
    };
    // Part 1 sends to part 2, on the first stage, micro-batch 0; part 0 sends micro-batch 1 to part 1.
    let first = vec![
        forward(0, 0),
        Action::SendActivation {
            micro_batch: 0,
            chunk: 0,
            to: 1,
        },
        Action::RecvActivation {
            micro_batch: 0,
            chunk: 1,
            from: 1,
        },
        forward(0, 1),
        forward(1, 0),
        Action::SendActivation {
            micro_batch: 1,
            chunk: 0,
            to: 1,
        },
    ];
    let second = vec![
        Action::RecvActivation {
            micro_batch: 0,
            chunk: 0,
            from: 0,
        },
        forward(0, 0),
        Action::RecvActivation {
            micro_batch: 1,
            chunk: 0,
            from: 0,
        },
        forward(1, 0),
        Action::SendActivation {
            micro_batch: 0,
            chunk: 0,
            to: 0,
        },
    ];
    let lists = vec![vec![first], vec![second]];
    let found = finishing(&(lists, stages), &[(0, 1), (1, 2)]);
    assert_eq!(found, Sharing::ALL[..4]);
}
