//! The order in which the host of a stage queues what a list does not fix: receives ahead of passes, and the passes of an evaluation.

use super::{Action, ChunkLocation, Stages};
use std::ops::Range;

/// The receives that are queued before an action runs: those up to this place of the list. They are queued one pass ahead of their use, so
/// that messages overlap with compute.
pub(crate) fn receives_until<T>(list: &[T], at: usize, is_pass: impl Fn(&T) -> bool) -> usize {
    if !is_pass(&list[at]) {
        return at + 1;
    }
    let after = list.iter().skip(at + 1).position(is_pass);
    after.map_or(list.len(), |offset| at + 1 + offset)
}

/// The passes of a stage in an evaluation, as chunk and micro-batch.
///
/// As in interleaved schedules, a group of micro-batches fills the stages with each chunk before the next group begins: if each chunk
/// ran all micro-batches, stages that wait for what they send to be received would never end.
pub(crate) fn evaluation_order(
    stages: Stages,
    micro_batches: Range<usize>,
) -> impl Iterator<Item = (usize, usize)> {
    let groups = micro_batches.clone().step_by(stages.number.max(1));
    groups.flat_map(move |first| {
        let group = first..micro_batches.end.min(first + stages.number);
        (0..stages.chunks).flat_map(move |chunk| group.clone().map(move |one| (chunk, one)))
    })
}

/// What a stage does in an evaluation, where it receives nothing ahead: a list for each pass.
pub(crate) fn evaluation(
    stages: Stages,
    stage: usize,
    micro_batches: Range<usize>,
) -> impl Iterator<Item = Vec<Action>> {
    let all = evaluation_order(stages, micro_batches);
    all.map(move |(chunk, micro_batch)| {
        let part = stages.part(ChunkLocation { stage, chunk });
        let from = part.checked_sub(1).map(|part| stages.location(part).stage);
        let to = Some(part + 1).filter(|next| *next < stages.num_parts());
        let to = to.map(|part| stages.location(part).stage);
        let is_other = |other: &usize| *other != stage;
        let receive = from.filter(is_other).map(|from| Action::RecvActivation {
            micro_batch,
            chunk,
            from,
        });
        let send = to.filter(is_other).map(|to| Action::SendActivation {
            micro_batch,
            chunk,
            to,
        });
        let pass = Some(Action::Forward { micro_batch, chunk });
        [receive, pass, send].into_iter().flatten().collect()
    })
}
