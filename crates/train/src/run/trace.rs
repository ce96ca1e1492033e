//! trace.json of a step: the activity of every rank's streams.

use crate::{Error, Result, metrics, trainer::disk_work};
use bootstrap::Launcher;
use parallel::Context;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Writes trace.json from the spans of a step on all running ranks: each writes its own, and rank 0 joins them.
pub(super) fn write(context: &Context, dir: &Path, step: u64) -> Result<()> {
    let (world, ahead_us) = (context.world(), clock_ahead_us(context)?);
    let spans = tensor::trace::finish(context.device())?;
    let part = format!("trace-{}.json", world.rank());
    let written = write_part(&dir.join(&part), world.rank(), &spans, ahead_us, step);
    // A rank that cannot write still takes part, or the others would wait for it.
    disk_work::agreed(world, written.map_err(Error::from))?;
    let mut parts = world.everyone().all_gather(part.as_bytes())?;
    if world.rank() == 0 {
        // A rank that stands for others appears once for each of them.
        let mut seen = HashSet::new();
        parts.retain(|part| seen.insert(part.clone()));
        let path = |part: &Vec<u8>| dir.join(&*String::from_utf8_lossy(part));
        let parts: Vec<PathBuf> = parts.iter().map(path).collect();
        metrics::trace::merge(&parts, &dir.join("trace.json"))?;
        parts
            .iter()
            .try_for_each(|path| std::fs::remove_file(path).map_err(Error::file(path)))?;
    }
    Ok(())
}

fn write_part(
    path: &Path,
    rank: usize,
    spans: &[tensor::trace::Span],
    ahead_us: f64,
    step: u64,
) -> metrics::Result<()> {
    let mut writer = metrics::trace::TraceWriter::create(path)?;
    for span in spans {
        let out = metrics::trace::Span::new(
            rank,
            &span.stream,
            span.name,
            span.start_us - ahead_us,
            span.duration_us,
        );
        let out = out
            .with("bytes", span.bytes as f64)
            .with("step", (step + 1) as f64);
        writer.span(&match &span.group {
            Some(group) => out.with("group", group.as_str()),
            None => out,
        })?;
    }
    writer.finish()
}

// How far the clock of this rank's device is ahead of rank 0's, because processes have separate clocks. All
// ranks read their clocks as they leave a barrier; the error is the travel time of its messages.
fn clock_ahead_us(context: &Context) -> Result<f64> {
    let world = context.world();
    if world.launcher() == Launcher::Local {
        return Ok(0.0);
    }
    world.everyone().barrier()?;
    let now = context.device().compute().record()?;
    now.synchronize()?;
    let own = now.time_us()?.unwrap_or(0.0);
    let first = world.everyone().broadcast(0, &own.to_le_bytes())?;
    Ok(own - first.try_into().map_or(own, f64::from_le_bytes))
}
