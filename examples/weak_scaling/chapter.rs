//! The chapter `docs/predictions.md`, written by the program that it is about.

use crate::{Result, improvements, point::Point, report, rows, rows::Row, simulate};
use plan::{Outcome, Preset, Request, search};
use std::{fmt::Write, time::Duration};

/// Where the improvements are shown: AxoNN's largest published runs on either machine.
const IMPROVED: [(&str, usize, &str); 2] = [
    ("perlmutter", 4096, "gpt-40b"),
    ("frontier", 16_384, "gpt-160b"),
];

const BEGINNING: &str = "# Predictions, and how far off they are

Written by `cargo run --release --example weak_scaling -- --report --write docs/predictions.md`; do not edit.

Every number below is a training step of the real program on the simulated vendor, with a machine's description from
`crates/grid/machines/`: physical constants with their sources, the same for every run, and no factor for any of them.
What is published, with its settings and sources, is in `examples/weak_scaling/published.toml`.

## Published steps

AxoNN's runs computed every layer again, overlapped collectives in backward alone, reduced gradients after it, tensor by
tensor, and had no pipeline. Their grids are not published: the best one that the planner finds stands for them.

";

const MISSES: &str = "
Two kinds of run are further off than the others. Of Alps one step is published and neither its batch nor its grid; its
6,144 devices divide the batch that is assumed here only if an axis of tensor parallelism has a factor of 3 and spans nodes.
MT-NLG's steps took longer than Megatron-LM's with the same sizes on the same machine (529.6B above), which are met: what made
them so is not known here, and attention that stores its scores, as theirs did, is not in the machine's description.
";

const IMPROVEMENTS: &str = "
## What each improvement buys

From the published settings to this library's defaults, one switch after the other; each line keeps those above it, and
the planner chooses grid and micro-batches anew. Percent of peak is quoted as the field does: computing layers again counts
as work, so it can fall while the step gets faster; the column beside it counts the model's own work alone.

";

const TABLES: &str = "
## Weak scaling

AxoNN's table of models, 16.8M tokens a batch. `--simulate --machine NAME` draws the plot of each.
";

/// The chapter, from the report's lines and what is simulated for it.
///
/// # Errors
/// Those of the planner.
pub fn text(lines: &[report::Line], budget: Duration) -> Result<String> {
    let mut text = BEGINNING.to_owned() + &report::table(lines) + MISSES + IMPROVEMENTS;
    for (machine, devices, model) in IMPROVED {
        text += &improvements::section(&Row::new(machine, devices, model), budget)?;
        text.push('\n');
    }
    text += &tuning(budget)?;
    text += TABLES;
    for machine in rows::machines() {
        let _ = write!(text, "\n### {machine}\n\n{}", table(machine, budget)?);
    }
    Ok(text)
}

// What it is worth to choose a product's variant by timing, where that matters most.
fn tuning(budget: Duration) -> Result<String> {
    let row = Row::new("frontier", 32_768, "gpt-320b");
    let tuned = row.request(Preset::PublishedAxonn, budget)?;
    let written = Request {
        tuned: false,
        ..tuned.clone()
    };
    let best = |request| -> Result<Outcome> {
        Ok(search(request)?
            .best
            .into_iter()
            .next()
            .ok_or("the planner found nothing")?)
    };
    let (fastest, avoiding) = (best(&tuned)?, best(&written)?);
    let same = plan::simulate(&written, &fastest.candidate, false)?;
    Ok(format!(
        "\n### Variants of products\n\nA gradient of weights is a product with its left factor transposed. On MI250X that \
         variant is slow at large sizes, and AxoNN chose the fastest by timing. All other numbers here take the fastest; \
         `fascicle plan --untuned` takes products as they are written. {} on {} devices of Frontier, published settings: \
         {:.1} s a batch with the fastest ({}), {:.1} s as written on that grid, and {:.1} s as written on a grid that \
         keeps products below those sizes ({}).\n",
        row.model,
        row.devices,
        fastest.step_s,
        report::grid(&fastest),
        same.step_s,
        avoiding.step_s,
        report::grid(&avoiding)
    ))
}

fn table(machine: &str, budget: Duration) -> Result<String> {
    let mut text = String::from(
        "| devices | model | published settings: s a batch | % of peak | our settings: s a batch | % of peak | our grid |\n\
         |---:|---|---:|---:|---:|---:|---|\n",
    );
    for row in rows::rows(machine)? {
        let published = simulate::row(&row, &[Preset::PublishedAxonn], budget)?;
        let ours = simulate::row(&row, &[Preset::Ours], budget)?;
        let numbers = |points: &[Point]| match points.first() {
            Some(point) => format!("{:.3} | {:.1}", point.step_s, point.percent_of_peak),
            None => "does not fit | -".into(),
        };
        let grid = ours
            .first()
            .and_then(|point| point.run.as_ref())
            .map_or("-", |run| run.grid.as_str());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {grid} |",
            row.devices,
            row.model,
            numbers(&published),
            numbers(&ours)
        );
    }
    Ok(text)
}
