//! The chapter `docs/predictions.md`, written by the program that it describes.

use crate::{Result, improvements, point::Point, report, rows, rows::Row, simulate};
use plan::{Outcome, Preset, Request, search};
use std::{fmt::Write, time::Duration};

/// The runs on which the improvements are shown: AxoNN's largest published run on each machine.
const IMPROVED: [(&str, usize, &str); 2] = [
    ("perlmutter", 4096, "gpt-40b"),
    ("frontier", 16_384, "gpt-160b"),
];

const BEGINNING: &str = "# Predictions and their errors

Written by `cargo run --release --example weak_scaling -- --report --write docs/predictions.md`; do not edit.

Every number below comes from a training step of the real program on the simulated vendor. The machine descriptions are in
`crates/grid/machines/`. They hold physical constants with their sources, are the same for every run, and have no
run-specific factors. The published figures, with their settings and sources, are in
`examples/weak_scaling/published.toml`.

## Published steps

AxoNN's runs recomputed every layer, gathered weights ahead in forward and backward, kept them from the recomputed forward to
the backward of a layer, reduced gradients after backward, tensor by tensor, and had no pipeline. Their grids are not published,
so the best grid that the planner finds stands for them. One run of 160B came before the group tuned its GEMMs, so it is
predicted as `--untuned`. Attention stored its scores in the programs of Megatron-LM and MT-NLG (`--stored-scores`). One of them
recomputed attention alone, and spread its vectors over X.

";

const MISSES: &str = "
Only MT-NLG's steps are far off, and we do not know why. Stored scores make its step 2 % longer, and its schedule is part of
the prediction. Megatron-LM ran the same model on as many devices of the same machine, all layers recomputed. With recomputation
counted, it reached 175 Tflop/s per device, and MT-NLG 126. A longer bubble (one part per stage instead of three, 240 micro-batches
instead of 280) makes MT-NLG 9 % slower. Machine and model being equal, the rest must lie in the program, which ran DeepSpeed's
pipeline. The three steps (60, 50 and 45 s by their Tflop/s) take 11, 9 and 10 s longer than predicted, with 240, 192 and 160
micro-batches: so most of that is spent once in a step, not in each micro-batch.

For Alps, one step is published, without its batch or its grid. Its 6,144 devices divide the batch that we assume only if a
tensor-parallel axis has a factor of 3. The rates of GEMMs on Perlmutter, Alps and Selene are fitted, one number for each machine;
the network of Frontier is measured but for rings with one rank on each node, whose bandwidth is fitted, one number for the runs of
160B and 320B. With an eighth of the bandwidth that was measured for rings through several devices of a node, weights gathered over Z
would take longer than the compute beside them on 16,384 GCDs already, where the group lost little. Each of eight such rings leaves its
node by the adapter of its own device, and uses no link inside the node.
";

const IMPROVEMENTS: &str = "
## What each improvement buys

The tables go from the published settings to this library's defaults, one switch at a time. Each line keeps the switches
above it, and the planner chooses grid and micro-batches again. Percent of peak follows the field's convention: recomputation
counts as work, so the percentage can fall while the step gets faster. The column beside it counts only the model's own work.

";

const TABLES: &str = "
## Weak scaling

These are the models of AxoNN's table, with 16.8M tokens per batch. `--simulate --machine NAME` draws the plot of each machine.
";

/// The chapter, made from the report's lines and from simulations.
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

// The benefit of choosing a GEMM's variant by timing, where it matters most.
fn tuning(budget: Duration) -> Result<String> {
    let row = Row::new("frontier", 16_384, "gpt-160b");
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
        "\n### GEMM variants\n\nThe gradient of a weight is a GEMM whose left factor is transposed. On MI250X that \
         variant is slow at large sizes, and AxoNN chose the fastest variant by timing. Except for the run that came before, \
         all other numbers here use the fastest variant; `fascicle plan --untuned` runs GEMMs as they are written. {} on {} devices of Frontier, published settings: \
         {:.1} s per batch with the fastest ({}), {:.1} s as written on that grid, and {:.1} s as written on a grid that \
         keeps GEMMs below those sizes ({}).\n",
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
        "| devices | model | published settings: s per batch | % of peak | our settings: s per batch | % of peak | our grid |\n\
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
