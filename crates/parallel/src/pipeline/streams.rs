//! The streams of the messages between stages: as few as the device has queues for.

use super::{
    plan::SchedulePlan,
    schedule::{Action, STEPS, Sharing, Stages, Steps, evaluation, finishes},
};
use crate::{
    Context,
    lane::Lane,
    model::{Cut, Link},
};
use grid::Axis;
use hal::{
    environment::table::{CUDA_QUEUES, HIP_QUEUES},
    error::Counted,
};
use std::cell::OnceCell;
use tensor::{Error, Result, Stream};

/// The streams of a link.
pub(super) struct Streams {
    sharing: Sharing,
    returns: bool,
    // Those of a link that shares none, each made on first use, by [`Direction`].
    own: Option<[OnceCell<Stream>; 4]>,
}

/// What passes a link at this rank.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    SendActivations,
    RecvActivations,
    SendGradients,
    RecvGradients,
}

impl Direction {
    /// The stream of links between neighbours, there and on a way back.
    const fn lanes(self) -> [Lane; 2] {
        match self {
            Direction::SendActivations => [Lane::SendActivations, Lane::SendActivationsBack],
            Direction::RecvActivations => [Lane::RecvActivations, Lane::RecvActivationsBack],
            Direction::SendGradients => [Lane::SendGradients, Lane::SendGradientsBack],
            Direction::RecvGradients => [Lane::RecvGradients, Lane::RecvGradientsBack],
        }
    }

    const fn is_sent(self) -> bool {
        matches!(self, Direction::SendActivations | Direction::SendGradients)
    }

    /// Name in traces of that of a link that skips parts.
    const fn name(self) -> &'static str {
        match self {
            Direction::SendActivations => "send skips",
            Direction::RecvActivations => "receive skips",
            Direction::SendGradients => "send skip gradients",
            Direction::RecvGradients => "receive skip gradients",
        }
    }
}

impl Streams {
    pub(super) fn of(link: &Link, stages: Stages, sharing: Sharing) -> Streams {
        Streams {
            sharing,
            returns: stages.is_way_back(link.from),
            own: (sharing == Sharing::Links && link.skips()).then(Default::default),
        }
    }

    pub(super) fn get(&self, context: &Context, direction: Direction) -> Result<Stream> {
        let [there, back] = direction.lanes();
        let lane = match self.sharing {
            Sharing::Links | Sharing::Ways if self.returns => back,
            Sharing::Links | Sharing::Ways | Sharing::Kinds => there,
            Sharing::Ends if direction.is_sent() => Lane::Sends,
            Sharing::Receives if direction.is_sent() => Lane::Collectives,
            Sharing::Ends | Sharing::Receives => Lane::Receives,
        };
        let Some(own) = &self.own else {
            return context.stream(lane);
        };
        let slot = &own[direction as usize];
        if let Some(stream) = slot.get() {
            return Ok(stream.clone());
        }
        let stream = context
            .device()
            .create_stream(lane.kind(), direction.name())?;
        Ok(slot.get_or_init(|| stream).clone())
    }
}

/// Which messages of a schedule share a stream: as few as the queues of the device allow, and so that all stages finish.
///
/// # Errors
/// [`Error::Invalid`] if the device has too few queues, or no number of them is enough.
pub(super) fn sharing(context: &Context, schedule: &SchedulePlan, cut: &Cut) -> Result<Sharing> {
    let stages = cut.stages();
    let crossing = |link: &&Link| cut.stage(link.from) != cut.stage(link.to);
    let links: Vec<&Link> = cut.links().iter().filter(crossing).collect();
    let num_skips = most_skips(cut, &links);
    let left = context.queues_for_messages();
    // Neighbours alone are never in each other's way: `schedule::tests::sharing`.
    if num_skips == 0 && left.is_none() {
        return Ok(Sharing::Links);
    }
    let links: Vec<(usize, usize)> = links.iter().map(|link| (link.from, link.to)).collect();
    let lists = lists(schedule, stages, num_skips > 0);
    let finishes = |sharing: Sharing, known: bool| match &lists {
        Some(lists) => {
            let steps = Steps {
                lists,
                stages,
                links: &links,
                known,
            };
            finishes(&steps, sharing)
        }
        None => sharing == Sharing::Links,
    };
    let mut needed = None;
    for sharing in Sharing::ALL {
        if finishes(sharing, true) && finishes(sharing, false) {
            let number = sharing.num_streams(stages.placement, num_skips);
            if left.is_none_or(|left| number <= left) {
                return Ok(sharing);
            }
            needed = Some(number);
        }
    }
    Err(too_few(context, left.unwrap_or(0), needed))
}

// The most links at a stage that skip parts.
fn most_skips(cut: &Cut, links: &[&Link]) -> usize {
    let at = |stage: usize| {
        let ends = |link: &&&Link| {
            [link.from, link.to]
                .iter()
                .any(|part| cut.stage(*part) == stage)
        };
        let skips = links.iter().filter(|link| link.skips());
        skips.filter(ends).count()
    };
    (0..cut.stages().number).map(at).max().unwrap_or(0)
}

fn too_few(context: &Context, left: usize, needed: Option<usize>) -> Error {
    let queues = context.device().num_queues().unwrap_or(0);
    let queues = Counted(queues, "hardware queue");
    let found = format!("{queues}, of which {left} for messages between stages");
    let needed = match needed {
        Some(number) => format!(
            "at least {number} for messages with this schedule and {} stages: set {} or {} before the program starts",
            context.degree(Axis::Pipeline),
            CUDA_QUEUES.name,
            HIP_QUEUES.name
        ),
        None => "a model whose links that skip stages do not wait for each other".to_string(),
    };
    Error::invalid("pipeline", found, needed)
}

// What every stage does in training, if it is known ahead, and then in an evaluation.
fn lists(schedule: &SchedulePlan, stages: Stages, skips: bool) -> Option<Vec<Vec<Vec<Action>>>> {
    let (trained, batches): (Vec<Vec<Vec<Action>>>, usize) = match schedule {
        SchedulePlan::Listed(schedule) => {
            let lists = schedule.stages.iter().map(|list| vec![list.clone()]);
            (lists.collect(), 1)
        }
        // What it receives at the end of a step is that of neighbours.
        SchedulePlan::Overlapped(overlapped) if !skips => {
            let lists = (0..stages.number).map(|stage| overlapped.lists(stage));
            (lists.collect(), STEPS)
        }
        SchedulePlan::Overlapped(_) | SchedulePlan::Driven { .. } => return None,
    };
    let number = schedule.num_micro_batches();
    let micro_batches = batches * number..(batches + 1) * number;
    let with_evaluation = |(stage, mut lists): (usize, Vec<Vec<Action>>)| {
        lists.extend(evaluation(stages, stage, micro_batches.clone()));
        lists
    };
    Some(
        trained
            .into_iter()
            .enumerate()
            .map(with_evaluation)
            .collect(),
    )
}
