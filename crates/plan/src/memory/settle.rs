//! `training.memory = "auto"`, settled before a run.

use super::choose::{MemoryChoice, Tried, choose};
use crate::{Request, Result, simulate::capabilities};
use grid::machine::Machine;
use hal::error::Bytes;
use parallel::memory::{PlaceKind, SegmentMemory};
use train::{
    Config,
    config::{BitsChoice, MemoryMode},
    run::settle_bits,
};

/// Settles [`training.memory`](train::config::TrainingConfig::memory) for a machine: chooses for each segment what gives the fastest
/// simulated step within `device.memory_limit` or the machine's memory, and states it in `training.recompute` and
/// `placement.activations`. Returns what was chosen, and nothing where the configuration states it already.
///
/// Called before any rank starts; a run that resumes from its checkpoint finds the choice stated.
///
/// # Cost
/// That of [`choose`].
/// # Errors
/// Those of [`Request::check`] and [`choose`].
pub fn settle(config: &mut Config, machine: &Machine) -> Result<Option<MemoryChoice>> {
    if config.training.memory == MemoryMode::Stated {
        return Ok(None);
    }
    let mut base = config.clone();
    base.training.memory = MemoryMode::Stated;
    let request = Request::of(&base, machine.clone())?;
    request.check()?;
    if base.training.reproducible == BitsChoice::Auto {
        settle_bits(&mut base, &capabilities(&request), None)?;
    }
    let kinds = request.work.kinds();
    let with = |segments: &[SegmentMemory]| {
        let mut config = base.clone();
        config.state_memory(segments, &kinds);
        config
    };
    let choice = choose(&request, &with)?;
    config.training.memory = MemoryMode::Stated;
    config.state_memory(&choice.chosen.segments, &kinds);
    Ok(Some(choice))
}

impl MemoryChoice {
    /// What was chosen and why: a sentence for each stage, and one with the times.
    pub fn sentences(&self) -> Vec<String> {
        let stays = &self.pure[0].1;
        let num_stages = self.chosen.bytes.len();
        let of_stage = |stage: usize| {
            let what = match num_stages {
                1 => "a rank".into(),
                _ => format!("a rank of stage {stage}"),
            };
            format!(
                "{what} holds {} of {}, and would hold {} if all segments stayed",
                Bytes(self.chosen.bytes[stage]),
                Bytes(self.chosen.capacity[stage]),
                Bytes(stays.bytes[stage]),
            )
        };
        let mut sentences = vec![format!("{}, chosen by simulation", self.words())];
        sentences.extend((0..num_stages).map(of_stage));
        let times = self.pure.iter().map(|(all, tried)| time(*all, tried));
        let times: Vec<String> = times.collect();
        sentences.push(format!(
            "a step takes {:.2} ms, {}",
            self.chosen.step_s * 1e3,
            times.join(", ")
        ));
        sentences
    }
}

fn time(all: SegmentMemory, tried: &Tried) -> String {
    let how = match (all.recompute, all.place) {
        (false, PlaceKind::Device) => "if all stayed",
        (false, PlaceKind::Host) => "all on the host",
        (false, PlaceKind::Files) => "all in files",
        (true, PlaceKind::Device) => "all recomputed",
        (true, PlaceKind::Host) => "all recomputed with inputs on the host",
        (true, PlaceKind::Files) => "all recomputed with inputs in files",
    };
    let lacks = if tried.fits {
        ""
    } else {
        ", which does not fit"
    };
    format!(
        "{:.2} ms {how} ({}{lacks})",
        tried.step_s * 1e3,
        Bytes(tried.most_bytes())
    )
}
