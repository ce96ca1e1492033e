//! Zero bubble: a backward hands on the gradients of inputs first, and those of weights fill the time in which a stage
//! would wait.

use super::{
    Pass, Placement, Result, Schedule, Stages, one_forward_one_backward,
    program::{Task, Work},
    shape::Shape,
};

/// ZB-H1: 1F1B, with the gradients of weights of stage `index` put off by `index` micro-batches.
///
/// Every stage keeps at most min(m, p) activations. With a forward of F, gradients of inputs of B and of weights of W, the
/// stage that waits least is idle for (p-1)(F+B-W), if m is at least p and W no longer than F and B.
///
/// # Errors
/// [`ScheduleError::Invalid`](super::ScheduleError::Invalid) when a count is zero, or their product exceeds 4,194,304
/// passes.
/// # Source
/// Zero Bubble Pipeline Parallelism (arXiv:2401.10241), section 2.2.
pub fn zb_h1(num_stages: usize, num_micro_batches: usize) -> Result<Schedule> {
    let shape = Shape::new("zb-h1", Stages::plain(num_stages), num_micro_batches)?;
    Ok(Schedule::from_tasks(shape, |stage| {
        let mut tasks = Vec::with_capacity(3 * num_micro_batches);
        for task in one_forward_one_backward::tasks(shape, stage) {
            tasks.push(task);
            if task.work == Work::Pass(Pass::Backward)
                && let Some(old) = task.micro_batch.checked_sub(stage)
            {
                tasks.push(Task::weights(old, 0));
            }
        }
        let left = num_micro_batches.saturating_sub(stage)..num_micro_batches;
        tasks.extend(left.map(|micro_batch| Task::weights(micro_batch, 0)));
        tasks
    }))
}

/// ZB-V: the model passes through the stages and back, so that the first stage holds its beginning and its end.
///
/// Every stage keeps at most 2p activations of a chunk, as many bytes as the first stage of 1F1B. With the times of a chunk,
/// F, B and W, the stage that waits least is idle for (p-1)B, if m is at least 2p-1 and F no longer than B. With fewer
/// micro-batches we lay out 2p-1 and leave out those that do not exist; the others keep their order.
///
/// # Errors
/// As [`zb_h1`], for passes of both chunks.
/// # Source
/// Pipeline Parallelism with Controllable Memory (arXiv:2405.15362), section 4.
pub fn zb_v(num_stages: usize, num_micro_batches: usize) -> Result<Schedule> {
    let stages = Stages {
        number: num_stages,
        chunks: 2,
        placement: Placement::V,
    };
    let shape = Shape::new("zb-v", stages, num_micro_batches)?;
    Ok(Schedule::from_tasks(shape, |stage| {
        let laid_out = num_micro_batches.max(2 * num_stages - 1);
        List::of_stage(stage, num_stages, laid_out)
            .into_iter()
            .filter(move |task| task.micro_batch < num_micro_batches)
    }))
}

/// The list of a stage of ZB-V while it is made: each kind of work takes the micro-batches of a chunk in their order.
#[derive(Default)]
struct List {
    tasks: Vec<Task>,
    forward: [usize; 2],
    backward: [usize; 2],
    weights: [usize; 2],
}

impl List {
    fn of_stage(stage: usize, num_stages: usize, num_micro_batches: usize) -> Vec<Task> {
        let mut list = List::default();
        // Until the first micro-batch has come back, and until every later stage has its own.
        (1..2 * (num_stages - stage)).for_each(|_| list.forward(0));
        for _ in 0..stage {
            list.forward(1);
            list.forward(0);
        }
        for _ in stage..num_stages {
            list.turn();
        }
        while list.forward[1] < num_micro_batches {
            if list.forward[0] < num_micro_batches {
                list.forward(0);
            }
            list.backward(0);
            list.weights(0);
            list.turn();
        }
        // What other stages wait for comes before the weights.
        for _ in 0..stage {
            list.backward(0);
            list.backward(1);
        }
        for _ in stage..num_stages {
            list.backward(0);
            list.weights(0);
        }
        for chunk in [1, 0] {
            while list.weights[chunk] < list.backward[chunk] {
                list.weights(chunk);
            }
        }
        list.tasks
    }

    // A whole micro-batch of the second chunk.
    fn turn(&mut self) {
        self.forward(1);
        self.backward(1);
        self.weights(1);
    }

    fn forward(&mut self, chunk: usize) {
        self.tasks.push(Task::forward(self.forward[chunk], chunk));
        self.forward[chunk] += 1;
    }

    fn backward(&mut self, chunk: usize) {
        self.tasks.push(Task::backward(self.backward[chunk], chunk));
        self.backward[chunk] += 1;
    }

    fn weights(&mut self, chunk: usize) {
        self.tasks.push(Task::weights(self.weights[chunk], chunk));
        self.weights[chunk] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Times, build, idle};
    use super::*;

    #[test]
    fn small_ones_by_hand() {
        let expected = "\
stage 0 | F0 F1 F2 .  .  B0 W0 F3 B1 W1 B2 W2 B3 W3
stage 1 | .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
stage 2 | .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3";
        assert_eq!(zb_h1(3, 4).unwrap().to_string(), expected);
        let expected = "\
stage 0 | F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 B1.1 W1.1 B0.0 W0.0 F2.1 B2.1 W2.1 B1.0 W1.0 B2.0 W2.0 .
stage 1 | .    F0.0 F0.1 F1.0 F1.1 B0.1 W0.1 F2.0 B0.0 W0.0 F2.1 B1.1 W1.1 B1.0 B2.1 B2.0 W1.0 W2.1 W2.0";
        assert_eq!(zb_v(2, 3).unwrap().to_string(), expected);
    }

    #[test]
    fn neither_can_be_shorter_if_all_work_takes_equally_long() {
        // The last stage begins p-1 forwards late, and then has all its work to do.
        for (num_stages, num_micro_batches) in [(2, 6), (4, 8), (5, 13)] {
            let waits = (num_stages - 1) as f64;
            for kind in ["zb-h1", "zb-v"] {
                let kind: super::super::ScheduleKind = kind.parse().unwrap();
                let chunks = kind.num_chunks() as f64;
                let schedule = build(kind, num_stages, num_micro_batches).unwrap();
                let work = 3.0 * chunks * num_micro_batches as f64;
                let found = idle(&schedule, &Times::UNIT).unwrap().makespan_us;
                assert_eq!(
                    found,
                    work + waits,
                    "{kind} {num_stages}x{num_micro_batches}"
                );
            }
        }
    }
}
