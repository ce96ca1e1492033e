//! The schedule of a pipeline as a text diagram, with its cost.

use crate::{
    failure::{Failure, Outcome},
    numbers::counted,
};
use parallel::pipeline::schedule::{self, ScheduleKind, Times};
use serde::Serialize;
use train::Config;

/// How the micro-batches of a step move through the stages.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timeline {
    name: String,
    stages: usize,
    micro_batches: usize,
    timeline: String,
    bubble: f64,
    peak_activations: Vec<usize>,
    /// Segments of the model in each part, in order.
    segments: Vec<usize>,
}

impl Timeline {
    /// The timeline of a configuration's schedule; `None` if there is one stage.
    pub(crate) fn new(config: &Config) -> Outcome<Option<Timeline>> {
        let (stages, micro_batches) =
            (config.parallel.grid.pipeline, config.training.micro_batches);
        if stages == 1 {
            return Ok(None);
        }
        let kind = config.parallel.schedule;
        let built = schedule::build(kind, stages, micro_batches).map_err(Failure::usage)?;
        let checked = schedule::check(&built).map_err(Failure::usage)?;
        let bubble = bubble(kind, stages, micro_batches).map_err(Failure::usage)?;
        Ok(Some(Timeline {
            name: kind.to_string(),
            stages,
            micro_batches,
            timeline: built.to_text(usize::MAX),
            bubble,
            peak_activations: checked.peak_live,
            segments: config.depths()?.unwrap_or_default(),
        }))
    }

    /// The text for people, with a diagram at most `columns` wide.
    pub(crate) fn text(&self, columns: usize) -> String {
        let peaks: Vec<String> = self.peak_activations.iter().map(usize::to_string).collect();
        let segments: Vec<String> = self.segments.iter().map(usize::to_string).collect();
        let picture = self
            .picture(columns)
            .lines()
            .map(|row| format!("  {row}\n"))
            .collect::<String>();
        let letters = match self.name.parse::<ScheduleKind>() {
            Ok(kind) if kind.splits_backward() => {
                "F forward, B gradients of inputs, W of weights, . idle"
            }
            Ok(kind) if kind.delays_gradients() => {
                "F forward, B backward, . idle; three steps in a row, whose micro-batches are counted through"
            }
            _ => "F forward, B backward, . idle",
        };
        format!(
            "\nschedule {} over {}, {} ({letters})\n{picture}  \
             bubble {:.0} % where a backward takes twice a forward; activations kept at most, by stage: {}\n  \
             segments of the model in each part: {}\n",
            self.name,
            counted(self.stages, "stage"),
            counted(self.micro_batches, "micro-batch"),
            100.0 * self.bubble,
            peaks.join(", "),
            segments.join(", ")
        )
    }

    // Draws the diagram again if the full one is too wide.
    fn picture(&self, columns: usize) -> String {
        let widest = self.timeline.lines().map(str::len).max().unwrap_or(0);
        let narrow = || {
            let built =
                schedule::build(self.name.parse().ok()?, self.stages, self.micro_batches).ok()?;
            Some(built.to_text(columns.saturating_sub(2)))
        };
        if widest + 2 <= columns {
            None
        } else {
            narrow()
        }
        .unwrap_or_else(|| self.timeline.clone())
    }
}

/// The idle fraction of a step, if a backward takes twice as long as a forward; where a schedule goes on into the next step, of one
/// between others.
///
/// # Errors
/// Those of a schedule that cannot be built.
pub(crate) fn bubble(
    kind: ScheduleKind,
    stages: usize,
    micro_batches: usize,
) -> schedule::Result<f64> {
    let times = Times::halves(1.0, 2.0);
    let built = schedule::build(kind, stages, micro_batches)?;
    match kind.bubble(stages, micro_batches, &times) {
        Some(fraction) if kind.delays_gradients() => Ok(fraction),
        _ => Ok(schedule::idle(&built, &times)?.fraction),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_picture_loses_its_middle_for_people_only() {
        let mut config = crate::testing::config(256);
        (config.training.batch, config.training.micro_batches) = (128, 64);
        let timeline = Timeline::new(&config).unwrap().unwrap();
        let text = timeline.text(60);
        let picture: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("  stage "))
            .collect();
        assert!(
            picture.len() == 2
                && picture
                    .iter()
                    .all(|line| line.len() <= 60 && line.contains(" ~ ")),
            "{text}"
        );
        assert!(!timeline.timeline.contains('~'));
    }

    #[test]
    fn one_stage_has_none() {
        let mut config = crate::testing::config(0);
        config.parallel.grid.pipeline = 1;
        assert!(Timeline::new(&config).unwrap().is_none());
    }
}
