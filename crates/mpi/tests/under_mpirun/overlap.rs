//! Bytes are in flight while GEMMs run, as shown by the trace that `train --trace` writes.

use crate::run;
use bootstrap::{Processes, World};
use families::GptConfig;
use grid::Degrees;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tensor::{Device, Error};
use train::data::{Dataset, Settings, Source, TokenizerChoice};
use train::{Config, Observer, Stop, run::Run};

/// Trains along one axis after the other, checks each step's trace, and returns a description of the overlap
/// found.
pub(crate) fn check(processes: &'static dyn Processes) -> Result<String, String> {
    let place = processes.join().map_err(|error| error.to_string())?;
    let along = |x, z, data| Degrees {
        x,
        y: 1,
        z,
        context: 1,
        data,
        pipeline: 1,
    };
    let cases = [
        (along(place.size, 1, 1), vec!["tensor all-reduce"]),
        (
            along(1, place.size, 1),
            vec!["gather weights", "scatter gradients"],
        ),
        (along(1, 1, place.size), vec!["reduce gradients"]),
    ];
    let mut said = Vec::new();
    for (grid, streams) in cases {
        said.push(until_beside(processes, grid, streams)?);
    }
    Ok(said.join("\n"))
}

// On a machine whose processors are taken, all of a step's collectives may happen to run between two GEMMs. What
// may never run beside a GEMM does not in any attempt.
const ATTEMPTS: usize = 20;

// Trains until a trace shows that collectives of each stream ran beside GEMMs. After each
// attempt the first rank reads the trace and decides for all ranks whether to try again.
fn until_beside(
    processes: &'static dyn Processes,
    grid: Degrees,
    streams: Vec<&'static str>,
) -> Result<String, String> {
    let (tell, told) = std::sync::mpsc::channel();
    run(processes, 60, move |world, device| {
        let (everyone, ranks) = (world.everyone(), world.size());
        for _ in 0..ATTEMPTS {
            let dir = traced(world, device, grid)?;
            let found = (world.rank() == 0).then(|| beside(&dir, &streams, ranks));
            let enough = [matches!(found, Some(Ok(_))).into()];
            tell.send(found.unwrap_or(Ok(String::new()))).ok();
            if everyone.broadcast(0, &enough)? == [1] {
                break;
            }
        }
        Ok(())
    })?;
    told.iter().last().unwrap_or(Ok(String::new()))
}

fn beside(dir: &TempDir, streams: &[&str], ranks: usize) -> Result<String, String> {
    let trace = Trace::read(&dir.path().join("trace.json"))?;
    let each = streams
        .iter()
        .map(|stream| trace.beside_matmuls(stream, ranks));
    Ok(each.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

struct Silent;

impl Observer for Silent {}

// Four steps, of which the third is traced, written to the first rank's folder.
fn traced(world: &World, device: &Device, grid: Degrees) -> tensor::Result<TempDir> {
    let refused = |error: std::io::Error| Error::invalid("a folder", error.to_string(), "none");
    let own = tempfile::tempdir().map_err(refused)?;
    let dir = world
        .everyone()
        .broadcast(0, own.path().as_os_str().as_encoded_bytes())?;
    let told = |error: train::Error| Error::invalid("a traced run", error.to_string(), "none");
    let run = run_in(String::from_utf8_lossy(&dir).into_owned().into(), grid).map_err(told)?;
    train::run::run(world, device, &run, &Silent, &Stop::default()).map_err(told)?;
    Ok(own)
}

fn run_in(dir: PathBuf, grid: Degrees) -> train::Result<Run> {
    // The weights are so large that moving them takes longer than a processor's time slice for a rank's
    // threads. On an otherwise idle machine, smaller weights may move between two GEMMs.
    let model = GptConfig {
        layers: 2,
        hidden: 256,
        heads: 4,
        context: 64,
        vocabulary: 256,
        ..GptConfig::default()
    };
    let mut config = Config::new(model.into());
    (
        config.training.steps,
        config.training.batch,
        config.training.micro_batches,
    ) = (4, 16, 1);
    (
        config.training.checkpoint_every,
        config.training.validation_batches,
    ) = (0, 1);
    // Every gradient is its own bucket, so that there is more than one.
    (config.parallel.grid, config.parallel.bucket_mib) = (grid, 0);
    let source = Source::Embedded(include_bytes!("overlap.rs").repeat(4));
    let settings = Settings {
        context: 64,
        global_batch: 16,
        validation_batches: 1,
        ..Settings::default()
    };
    let (data, tokenizer) = Dataset::open(&source, &TokenizerChoice::Bytes, &settings)?;
    Ok(Run {
        config,
        num_tokens: None,
        data: std::sync::Arc::new(data),
        tokenizer: Some(tokenizer),
        dir,
        resume: None,
        init: None,
        restart: false,
        trace_step: Some(2),
        peak_flop_per_s: None,
    })
}

/// Pieces of work by rank and stream, in microseconds.
struct Trace(HashMap<(u64, String), Vec<Piece>>);

struct Piece {
    name: String,
    start: f64,
    end: f64,
    bytes: f64,
}

impl Trace {
    fn read(path: &Path) -> Result<Trace, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let events = json["traceEvents"]
            .as_array()
            .ok_or("trace.json holds no events")?;
        let streams: HashMap<u64, &str> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .filter_map(stream)
            .collect();
        let mut pieces: HashMap<(u64, String), Vec<Piece>> = HashMap::new();
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let lane = event["tid"]
                .as_u64()
                .and_then(|tid| streams.get(&tid))
                .copied()
                .unwrap_or_default();
            let rank = event["pid"].as_u64().unwrap_or(0);
            pieces
                .entry((rank, lane.to_owned()))
                .or_default()
                .push(Piece::of(event));
        }
        Ok(Trace(pieces))
    }

    // How long collectives of that stream ran, over all ranks, and the fraction of that time in which a GEMM
    // ran beside them.
    fn beside_matmuls(&self, stream: &str, ranks: usize) -> Result<String, String> {
        let (mut all, mut beside, mut bytes) = (0.0, 0.0, 0.0);
        for rank in 1..=ranks as u64 {
            let of = |stream: &str| {
                self.0
                    .get(&(rank, stream.to_owned()))
                    .map_or(&[][..], Vec::as_slice)
            };
            let matmuls: Vec<&Piece> = of("compute")
                .iter()
                .filter(|piece| piece.name == "matmul")
                .collect();
            for piece in of(stream) {
                let shared = matmuls
                    .iter()
                    .map(|matmul| matmul.shares(piece))
                    .sum::<f64>();
                (all, beside) = (all + piece.end - piece.start, beside + shared);
                bytes += if shared > 0.0 { piece.bytes } else { 0.0 };
            }
        }
        if beside == 0.0 {
            return Err(format!(
                "stream {stream}: no collective of {ranks} ranks ran beside a GEMM"
            ));
        }
        let (share, kib) = (100.0 * beside / all, bytes / 1024.0);
        Ok(format!(
            "{stream}: {kib:.0} KiB in flight beside GEMMs, {share:.0} % of its time"
        ))
    }
}

fn stream(event: &Value) -> Option<(u64, &str)> {
    Some((event["tid"].as_u64()?, event["args"]["name"].as_str()?))
}

impl Piece {
    fn of(event: &Value) -> Piece {
        let start = event["ts"].as_f64().unwrap_or(f64::NAN);
        Piece {
            name: event["name"].as_str().unwrap_or_default().to_owned(),
            start,
            end: start + event["dur"].as_f64().unwrap_or(f64::NAN),
            bytes: event["args"]["bytes"].as_f64().unwrap_or(f64::NAN),
        }
    }

    // Microseconds in which both ran.
    fn shares(&self, other: &Piece) -> f64 {
        (self.end.min(other.end) - self.start.max(other.start)).max(0.0)
    }
}
