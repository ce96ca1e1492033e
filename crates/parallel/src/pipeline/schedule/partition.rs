//! Cuts the items of a model into parts by what they cost: their time, the messages between parts, and memory.

use super::{Result, ScheduleError, Stages, cuts::Cuts};
use std::ops::Range;

/// What a cut is chosen by. Times have any unit that all of them share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Time of each item for one micro-batch, forward and backward.
    pub times: Vec<f64>,
    /// The tensors that items hand to later ones.
    pub wires: Vec<ProfiledWire>,
    /// What items take of a device's memory, if that is limited.
    pub memory: Option<ProfiledMemory>,
}

impl Profile {
    /// Whether the memory that every stage needs for its parts is within the limit, if there is one.
    pub fn fits(&self, parts: &[Range<usize>], stages: Stages, in_flight: &[usize]) -> bool {
        let Some(memory) = &self.memory else {
            return true;
        };
        let mut needed = vec![0.0; stages.number];
        for (part, items) in parts.iter().enumerate() {
            let held: f64 = memory.held[items.clone()].iter().sum();
            let kept: f64 = memory.kept[items.clone()].iter().sum();
            needed[stages.location(part).stage] += held + in_flight[part] as f64 * kept;
        }
        needed.iter().all(|bytes| *bytes <= memory.limit)
    }
}

/// A tensor that an item hands to later ones.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledWire {
    /// The item that makes it.
    pub from: usize,
    /// The items that read it.
    pub to: Vec<usize>,
    /// Time of its message to another stage, or of its gradient's back.
    pub time: f64,
}

/// The memory that items take, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledMemory {
    /// Bytes of a device.
    pub limit: f64,
    /// Bytes that each item holds all the time: weights, gradients, the optimiser's state.
    pub held: Vec<f64>,
    /// Bytes that each item keeps from the forward of a micro-batch to its backward.
    pub kept: Vec<f64>,
}

/// Cuts items into contiguous, non-empty ranges whose largest sum is as small as possible.
///
/// As [`partition`], where only the items' times count.
///
/// # Errors
/// As [`partition`].
pub fn balance(costs: &[f64], parts: usize) -> Result<Vec<Range<usize>>> {
    let profile = Profile {
        times: costs.to_vec(),
        ..Profile::default()
    };
    partition(&profile, Stages::plain(parts), &[])
}

/// Cuts items into contiguous, non-empty ranges, one for each part of the model, so that the slowest part takes as little
/// time as possible and no part needs more memory than its stage has for it.
///
/// A part takes the time of its items, and of the messages that it receives: each wire that enters it, unless the part before it is
/// on its stage, and, once, the gradient of each wire that leaves it, unless the next part is. It needs the memory that its items hold, and what they keep for the most micro-batches that are
/// `in_flight[part]` at a time; the parts of a stage have equal shares of its memory, so a cut without that limit may
/// [fit](Profile::fits) too. `in_flight` is read only if memory is limited.
///
/// The largest time is exact, not a heuristic. Among the partitions that reach it, the one with the most even
/// times of items is chosen (smallest sum of squares). Among equals, the one with the shortest first range is chosen,
/// then the shortest second, and so on, because the first stages of a pipeline keep the most activations. The
/// cost of the search is proportional to parts x items^2 at most, and to items^2 for many parts of similar times.
///
/// # Errors
/// [`ScheduleError::Invalid`] when there are no parts, fewer items than parts, or times that are negative, not finite,
/// or so large that the square of their sum is not finite; also when no cut fits the memory.
/// # Source
/// Narayanan et al., PipeDream (SOSP 2019), section 3.1, without replicated stages.
pub fn partition(
    profile: &Profile,
    stages: Stages,
    in_flight: &[usize],
) -> Result<Vec<Range<usize>>> {
    let invalid = |found, needed| {
        Err(ScheduleError::Invalid {
            operation: "partition",
            found,
            needed,
        })
    };
    let (parts, times) = (stages.num_parts(), &profile.times);
    if parts == 0 || times.len() < parts {
        let found = format!("{} items for {parts} parts", times.len());
        let needed = "at least 1 part, and at least 1 item for each";
        return invalid(found, needed.to_string());
    }
    let sound = |time: &f64| time.is_finite() && *time >= 0.0;
    if let Some(index) = times.iter().position(|time| !sound(time)) {
        let found = format!("cost {} of item {index}", times[index]);
        return invalid(found, "finite costs from 0".to_string());
    }
    if let Some(wire) = profile.wires.iter().find(|wire| !sound(&wire.time)) {
        let found = format!("cost {} of a wire from item {}", wire.time, wire.from);
        return invalid(found, "finite costs from 0".to_string());
    }
    let on_wires = |wire: &ProfiledWire| wire.time * wire.to.len() as f64;
    let total = times.iter().sum::<f64>() + profile.wires.iter().map(on_wires).sum::<f64>();
    if !(total * total).is_finite() {
        let found = format!("costs of {total} in all");
        return invalid(found, "a sum whose square is finite".to_string());
    }
    let cuts = Cuts::new(profile, stages, in_flight);
    match (cuts.best(), &profile.memory) {
        (Some(ranges), _) => Ok(ranges),
        (None, memory) => {
            let limit = memory.as_ref().map_or(0.0, |memory| memory.limit);
            let found = format!("no cut into {parts} parts that fits");
            invalid(found, format!("more memory than {limit} bytes per stage"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_may_fit_although_its_parts_have_unequal_shares() {
        let memory = |limit| {
            Some(ProfiledMemory {
                limit,
                held: vec![6.0, 1.0, 1.0, 1.0],
                kept: vec![0.5; 4],
            })
        };
        let stages = Stages {
            chunks: 2,
            ..Stages::plain(2)
        };
        let in_flight = [2, 1, 1, 1];
        let profile = |limit| Profile {
            times: vec![1.0; 4],
            memory: memory(limit),
            ..Profile::default()
        };
        let by_time = balance(&[1.0; 4], 4).unwrap();
        // Stage 0 has parts 0 and 2: 6 + 2 x 0.5 and 1 + 0.5 bytes.
        assert!(profile(8.5).fits(&by_time, stages, &in_flight));
        assert!(!profile(8.4).fits(&by_time, stages, &in_flight));
        assert!(partition(&profile(8.5), stages, &in_flight).is_err());
    }

    #[test]
    fn thousands_of_items_take_no_time() {
        let costs: Vec<f64> = (0..4000).map(|item| f64::from(item % 7 + 1)).collect();
        let begun = std::time::Instant::now();
        let ranges = balance(&costs, 256).unwrap();
        assert_eq!((ranges.len(), ranges[255].end), (256, 4000));
        // All ends of all ranges take a minute.
        assert!(begun.elapsed().as_secs() < 20);
    }

    #[test]
    fn a_heavy_head_gets_a_stage_of_its_own_and_the_rest_is_even() {
        assert_eq!(
            balance(&[1.0, 1.0, 1.0, 1.0, 9.0], 3).unwrap(),
            [0..2, 2..4, 4..5]
        );
    }

    #[test]
    fn equal_layers_leave_the_first_stages_lighter() {
        assert_eq!(balance(&[0.1; 5], 3).unwrap(), [0..1, 1..3, 3..5]);
        assert_eq!(balance(&[0.0; 3], 2).unwrap(), [0..1, 1..3]);
    }

    #[test]
    fn what_cannot_be_cut_is_refused_with_numbers() {
        let text = balance(&[1.0; 3], 4).unwrap_err().to_string();
        assert_eq!(
            text,
            "partition: 3 items for 4 parts, needs at least 1 part, and at least 1 item for each"
        );
        assert!(balance(&[1.0], 0).is_err());
        let text = balance(&[1.0, f64::NAN], 1).unwrap_err().to_string();
        assert_eq!(
            text,
            "partition: cost NaN of item 1, needs finite costs from 0"
        );
    }
}
